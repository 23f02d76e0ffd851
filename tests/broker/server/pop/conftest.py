"""A pop client on the broker core of the server tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.message.message import MessageExt
from broker.message.receipt_handle import ReceiptHandle, decode_handle, encode_handle, real_topic
from broker.message.record import scan_records
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand


class Popped:
    """One delivered message as a client knows it: record, handle, and the topic to acknowledge."""

    def __init__(self, message: MessageExt, handle: ReceiptHandle, topic: str, group: str) -> None:
        self.message = message
        self.handle = handle
        self.body = message.body
        self.reconsume_times = message.reconsume_times
        self.topic = real_topic(topic, group, handle.retry_flag)

    @property
    def ext(self) -> dict[str, Any]:
        """The fields of a request about this message."""
        return {
            "topic": self.topic,
            "queueId": self.handle.queue_id,
            "extraInfo": encode_handle(self.handle),
            "offset": self.handle.queue_offset,
        }


class PopClient:
    """Pops, acknowledges and changes invisible times of one group through the handlers."""

    def __init__(self, desk: Any, topic: str = "Orders", group: str = "G1") -> None:
        self.desk = desk
        self.topic = topic
        self.group = group

    def request(self, **fields: Any) -> dict[str, Any]:
        """The fields of a pop without waiting."""
        return {
            "consumerGroup": self.group,
            "topic": self.topic,
            "queueId": -1,
            "maxMsgNums": 32,
            "invisibleTime": 10_000,
            "pollTime": 0,
            "bornTime": self.desk.clock.now_ms(),
            "initMode": 0,
            **fields,
        }

    def pop_raw(self, *, connection: Any = None, **fields: Any) -> RemotingCommand | None:
        return self.desk.ask(RequestCode.POP_MESSAGE, self.request(**fields), connection=connection)

    def pop(self, **fields: Any) -> list[Popped]:
        answer = self.pop_raw(**fields)
        assert answer is not None
        return self.messages(answer)

    def messages(self, answer: RemotingCommand) -> list[Popped]:
        """Pair records and offsets as Java's client does, by queue and order."""
        if answer.code != 0:
            return []
        ext = answer.ext_fields
        starts = dict(_items(ext["startOffsetInfo"]))
        found = []
        for message in scan_records(answer.body_bytes()):
            own = message.get_property("POP_CK")
            if own is not None:
                handle = decode_handle(own)
            else:
                key = ("0", message.queue_id)
                handle = ReceiptHandle(
                    int(starts[key]),
                    int(ext["popTime"]),
                    int(ext["invisibleTime"]),
                    int(ext["reviveQid"]),
                    "0",
                    "broker-a",
                    message.queue_id,
                    message.queue_offset,
                )
            found.append(Popped(message, handle, self.topic, self.group))
        return found

    def ack(self, popped: Popped, **fields: Any) -> RemotingCommand:
        ext = {"consumerGroup": self.group, **popped.ext, **fields}
        answer = self.desk.ask(RequestCode.ACK_MESSAGE, ext)
        assert answer is not None
        return answer

    def change(self, popped: Popped, invisible_ms: int, **fields: Any) -> RemotingCommand:
        """Change the invisible time; ``popped`` has the new handle afterwards."""
        ext = {"consumerGroup": self.group, **popped.ext, "invisibleTime": invisible_ms, **fields}
        answer = self.desk.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, ext)
        assert answer is not None
        if answer.code == 0 and not popped.handle.ordered:
            popped.handle = popped.handle._replace(
                start_offset=popped.handle.queue_offset,
                pop_time=int(answer.ext_fields["popTime"]),
                invisible_time=int(answer.ext_fields["invisibleTime"]),
                revive_queue_id=int(answer.ext_fields["reviveQid"]),
            )
        return answer


def _items(text: str) -> Iterator[tuple[tuple[str, int], str]]:
    for item in text.split(";"):
        if item:
            flag, queue_id, value = item.split(" ")
            yield (flag, int(queue_id)), value


@pytest.fixture
def pop_client() -> Callable[..., PopClient]:
    """``pop_client(desk, topic, group)``."""
    return PopClient


@pytest.fixture
def client(desk) -> PopClient:
    """A client of group G1 on topic Orders, which has four queues."""
    desk.topic("Orders")
    return PopClient(desk)
