"""Reading from a position while brokers fail: reports, times, and the end of the reading."""

import msgspec
import pytest

from broker.common.clock import ManualClock
from broker.errors import ClientError, ConnectError, RequestTimeoutError
from broker.message.message import MessageExt
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.message.read_from import ReadFrom, read_from
from mqadmin.admin.message.tail import RETRY_AFTER_MS
from mqadmin.admin.result import TargetError
from tests.support.fake_brokers import NOW_MS, FakeBroker, FakeCluster


class Reading:
    """Steps of one reading, with the errors reported so far."""

    def __init__(self, admin: MQAdmin, clock: ManualClock, **question) -> None:
        self.reports: list[TargetError] = []
        question.setdefault("topic", "t")
        self.steps = read_from(admin, ReadFrom(**question), self.reports.append, clock)

    def step(self) -> list[bytes]:
        return [message.body for _, message in next(self.steps)]

    def messages(self) -> list[tuple[str, MessageExt]]:
        return next(self.steps)


@pytest.fixture
def both(broker_a: FakeBroker, broker_b: FakeBroker) -> None:
    broker_a.store("t", 0, b"a0")
    broker_b.store("t", 0, b"b0")


@pytest.mark.usefixtures("both")
def test_messages_carry_the_name_of_their_broker(admin: MQAdmin, cluster: FakeCluster) -> None:
    reading = Reading(admin, cluster.clock, start="earliest")
    assert sorted((name, one.body) for name, one in reading.messages()) == [
        ("broker-a", b"a0"),
        ("broker-b", b"b0"),
    ]
    assert reading.step() == []


@pytest.mark.usefixtures("both")
def test_latest_starts_at_the_end_and_reads_later_messages(
    admin: MQAdmin, cluster: FakeCluster, broker_b: FakeBroker
) -> None:
    reading = Reading(admin, cluster.clock, start="latest")
    assert reading.step() == []
    broker_b.store("t", 1, b"new")
    assert reading.step() == [b"new"]


@pytest.mark.usefixtures("both")
def test_one_broker_and_one_queue_can_be_selected(
    admin: MQAdmin, cluster: FakeCluster, broker_a: FakeBroker
) -> None:
    broker_a.store("t", 2, b"a2")
    selected = Reading(admin, cluster.clock, start="earliest", broker="broker-a", queue_id=2)
    assert selected.step() == [b"a2"]
    assert set(cluster.asked(RequestCode.PULL_MESSAGE)) == {broker_a.address}


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"broker": "broker-x"}, "broker broker-x has no topic t"),
        ({"queue_id": 9}, "topic t has no queue 9"),
        ({"broker": "broker-a", "queue_id": 4}, "topic t has no queue 4 on broker-a"),
    ],
)
def test_a_selection_without_a_queue_is_an_error(
    admin: MQAdmin, cluster: FakeCluster, question: dict, message: str
) -> None:
    with pytest.raises(ClientError, match=message) as caught:
        Reading(admin, cluster.clock, **question).step()
    assert caught.value.hint.startswith("mqadmin topic ")


@pytest.mark.usefixtures("both")
def test_a_broker_that_does_not_answer_at_the_start_is_reported_once_and_left_out(
    admin: MQAdmin, cluster: FakeCluster, broker_b: FakeBroker
) -> None:
    broker_b.down = True
    reading = Reading(admin, cluster.clock, start="earliest")
    assert reading.step() == [b"a0"]
    assert [(one.kind, one.address) for one in reading.reports] == [
        ("unreachable", broker_b.address)
    ]
    broker_b.down = False
    cluster.clock.advance(RETRY_AFTER_MS)
    assert reading.step() == []
    assert len(reading.reports) == 1


@pytest.mark.usefixtures("both")
def test_without_any_start_the_first_error_is_raised(
    admin: MQAdmin, cluster: FakeCluster, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    reading = Reading(admin, cluster.clock)
    broker_a.down = broker_b.down = True
    with pytest.raises(ConnectError) as caught:
        reading.step()
    assert caught.value.address == broker_a.address
    assert reading.reports == []


@pytest.mark.usefixtures("both")
def test_a_broker_that_fails_while_reading_is_reported_and_read_again_later(
    admin: MQAdmin, cluster: FakeCluster, broker_b: FakeBroker
) -> None:
    reading = Reading(admin, cluster.clock)
    assert reading.step() == []
    broker_b.down = True
    assert reading.step() == []
    assert [one.address for one in reading.reports] == [broker_b.address]
    assert reading.step() == []
    assert len(reading.reports) == 1
    broker_b.down = False
    broker_b.store("t", 0, b"back")
    cluster.clock.advance(RETRY_AFTER_MS)
    assert reading.step() == [b"back"]


@pytest.mark.usefixtures("both")
def test_when_every_broker_fails_the_reading_ends_with_the_last_error(
    admin: MQAdmin, cluster: FakeCluster, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    reading = Reading(admin, cluster.clock)
    assert reading.step() == []
    broker_a.down = broker_b.silent = True
    with pytest.raises(RequestTimeoutError):
        reading.step()
    assert {one.kind for one in reading.reports} == {"unreachable", "timeout"}


@pytest.mark.usefixtures("both")
def test_a_refusal_of_one_queue_is_reported_with_its_response_code(
    admin: MQAdmin, cluster: FakeCluster, broker_b: FakeBroker
) -> None:
    reading = Reading(admin, cluster.clock)
    broker_b.refuse(RequestCode.PULL_MESSAGE, ResponseCode.NO_PERMISSION, "the topic is write-only")
    assert reading.step() == []
    (error,) = reading.reports
    assert error.response_code == ResponseCode.NO_PERMISSION


def test_messages_before_the_time_are_left_out_though_the_position_is_widened(
    admin: MQAdmin, cluster: FakeCluster, broker_a: FakeBroker
) -> None:
    for body in (b"0", b"1", b"2"):
        broker_a.store("t", 0, body)
        cluster.clock.advance(1_000)
    for start, expected in (
        (NOW_MS, [b"0", b"1", b"2"]),
        (NOW_MS + 1, [b"1", b"2"]),
        (NOW_MS + 1_000, [b"1", b"2"]),
        (NOW_MS + 2_000, [b"2"]),
        (NOW_MS + 2_001, []),
    ):
        assert Reading(admin, cluster.clock, start=start).step() == expected


def test_a_time_before_the_first_message_starts_at_the_minimum(
    admin: MQAdmin, cluster: FakeCluster, broker_a: FakeBroker
) -> None:
    for number in range(5):
        broker_a.store("t", 0, b"%d" % number)
    broker_a.expire("t", 0, 3)
    reading = Reading(admin, cluster.clock, start=1, queue_id=0)
    found = reading.step() or reading.step()
    assert found == [b"3", b"4"]


def test_tags_select_messages(admin: MQAdmin, cluster: FakeCluster, broker_a: FakeBroker) -> None:
    for tag in ("A", "B", "C"):
        broker_a.store("t", 0, tag.encode(), tags=tag)
    reading = Reading(admin, cluster.clock, start="earliest", tags="A || C")
    assert reading.step() == [b"A", b"C"]


def test_an_sql_expression_is_sent_in_the_place_of_the_tags(
    admin: MQAdmin, cluster: FakeCluster, broker_a: FakeBroker
) -> None:
    broker_a.store("t", 0, b"x")
    asked = []
    honest = broker_a.on_11

    def pull(header, command):
        asked.append((header.expression_type, header.subscription))
        return honest(msgspec.structs.replace(header, subscription="*"), command)

    broker_a.on_11 = pull
    Reading(admin, cluster.clock, start="earliest", sql="a > 1", broker="broker-a").step()
    assert set(asked) == {("SQL92", "a > 1")}


def test_a_model_of_readings(admin: MQAdmin, cluster: FakeCluster, rng) -> None:
    """From any time on, each message that is stored at or after it is read once."""
    first, second = cluster.brokers
    stored = [(first.store("t").store_timestamp, b"body")]
    for number in range(rng.randrange(5, 60)):
        cluster.clock.advance(rng.randrange(3))
        body = b"%d" % number
        message = rng.choice((first, second)).store("t", rng.randrange(4), body)
        stored.append((message.store_timestamp, body))
    start = NOW_MS + rng.randrange(60)
    reading = Reading(admin, cluster.clock, start=start)
    found = reading.step()
    for number in range(100, 110):
        cluster.clock.advance(60)
        body = b"%d" % number
        message = rng.choice((first, second)).store("t", rng.randrange(4), body)
        stored.append((message.store_timestamp, body))
        found += reading.step()
    assert sorted(found) == sorted(body for time, body in stored if time >= start)
