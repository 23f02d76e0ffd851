"""Pulling: every status, tags checked again, scans over holes."""

import pytest

from broker.common.message_queue import MessageQueue
from broker.errors import BrokerError, ClientError, ConnectError
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import MAGIC_V1, body_crc, encode_record
from broker.remoting.protocol.command import response
from mqadmin.admin.message.queue_reader import QueueReader, wanted_tags

QUEUE = MessageQueue("t", "a", 1)


def record(offset, tags="A"):
    return encode_record(
        MessageExt(
            "t",
            b"x",
            encode_properties({"TAGS": tags}),
            magic=MAGIC_V1,
            body_crc=body_crc(b"x"),
            queue_id=1,
            queue_offset=offset,
        )
    )


def answer(command, code=0, *, following=0, low=0, high=10, body=b"", remark=None):
    ext = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(following),
        "minOffset": str(low),
        "maxOffset": str(high),
    }
    return response(command, code, remark, ext, body)


@pytest.fixture
def consumer(scripted, caller):
    scripted.route("t", "a", "b")
    return QueueReader(caller)


def pulls(scripted):
    return [command.ext_fields for _, command in scripted.calls if command.code == 11]


def test_transferred_fields(scripted, consumer) -> None:
    scripted.scripts[11] = lambda a, c: answer(c, 19, following=7)
    consumer.pull(QUEUE, 7, tags="A || B", suspend_ms=100)
    (ext,) = pulls(scripted)
    assert ext["consumerGroup"] == "TOOLS_CONSUMER"
    assert (ext["queueOffset"], ext["queueId"], ext["maxMsgNums"]) == ("7", "1", "32")
    assert (ext["sysFlag"], ext["suspendTimeoutMillis"]) == ("6", "100")
    assert (ext["subscription"], ext["expressionType"]) == ("A || B", "TAG")
    consumer.pull(QUEUE, 7)
    assert pulls(scripted)[1]["sysFlag"] == "4"


@pytest.mark.parametrize(
    ("code", "status"),
    [(0, "FOUND"), (19, "NO_NEW_MSG"), (20, "NO_MATCHED_MSG"), (21, "OFFSET_ILLEGAL")],
)
def test_statuses(scripted, consumer, code, status) -> None:
    scripted.scripts[11] = lambda a, c: answer(c, code, following=3, remark="WHY")
    result = consumer.pull(QUEUE, 7)
    assert (result.status, result.remark, result.next_begin_offset) == (status, "WHY", 3)
    assert (result.min_offset, result.max_offset) == (0, 10)


def test_tags_are_checked_again(scripted, consumer) -> None:
    body = record(1, "A") + record(2, "hash-alike")
    scripted.scripts[11] = lambda a, c: answer(c, following=3, body=body)
    assert [m.queue_offset for m in consumer.pull(QUEUE, 1, tags="A").messages] == [1]
    assert len(consumer.pull(QUEUE, 1).messages) == 2


def test_refusals_are_errors(scripted, consumer) -> None:
    scripted.scripts[11] = lambda a, c: response(c, 16, "no reading")
    with pytest.raises(BrokerError, match="no reading"):
        consumer.pull(QUEUE, 0)


def test_a_broker_without_address(consumer) -> None:
    with pytest.raises(ClientError, match="has no address"):
        consumer.pull(MessageQueue("t", "zz", 0), 0)


def test_offsets_of_many_queues(scripted, consumer) -> None:
    def offset(address, command):
        if address == "b:1":
            return ConnectError("down", address=address)
        return response(command, ext={"offset": command.ext_fields["queueId"]})

    scripted.scripts |= {29: offset, 30: offset, 31: offset}
    queues = [MessageQueue("t", "a", 0), MessageQueue("t", "a", 1), MessageQueue("t", "b", 0)]
    for found in (
        consumer.min_offsets(queues),
        consumer.max_offsets(queues),
        consumer.search_offsets(queues, 5),
    ):
        assert found[:2] == [0, 1]
        assert isinstance(found[2], ConnectError)


def test_an_empty_inner_batch_queue_starts_at_0(scripted, consumer) -> None:
    scripted.scripts[31] = lambda _, command: response(command, ext={"offset": "-1"})
    assert consumer.min_offsets([QUEUE]) == [0]


class TestScan:
    def stored(self, scripted, offsets, high=10):
        """A queue that holds these offsets, in batches of two."""

        def pull(address, command):
            start = int(command.ext_fields["queueOffset"])
            rest = [offset for offset in offsets if offset >= start][:2]
            if start >= high:
                return answer(command, 19, following=start, high=high)
            if not rest:
                return answer(command, 20, following=high, high=high)
            body = b"".join(map(record, rest))
            return answer(command, following=rest[-1] + 1, high=high, body=body)

        scripted.scripts[11] = pull

    def test_to_the_present_end(self, scripted, consumer):
        self.stored(scripted, [0, 1, 2, 5, 9])
        assert [m.queue_offset for m in consumer.scan(QUEUE, 1)] == [1, 2, 5, 9]

    def test_to_a_given_end(self, scripted, consumer):
        self.stored(scripted, range(10))
        assert [m.queue_offset for m in consumer.scan(QUEUE, 2, 5)] == [2, 3, 4]

    def test_over_a_hole_at_the_end(self, scripted, consumer):
        self.stored(scripted, [0, 1])
        assert [m.queue_offset for m in consumer.scan(QUEUE, 0)] == [0, 1]

    def test_an_empty_range_asks_nothing(self, scripted, consumer):
        assert list(consumer.scan(QUEUE, 5, 5)) == []
        assert not pulls(scripted)

    def test_a_stopped_broker_ends_the_wait(self, scripted, consumer):
        scripted.scripts[11] = lambda a, c: answer(c, 20, following=0)
        assert list(consumer.scan(QUEUE, 0)) == []


def test_tag_expressions() -> None:
    assert wanted_tags("*") is None
    assert wanted_tags("") is None
    assert wanted_tags("A || * || B") is None
    assert wanted_tags(" A ||B|| ") == {"A", "B"}
