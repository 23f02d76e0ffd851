"""POP at a fake broker: assignment by mode, pops with invisible times, acknowledgements."""

import asyncio

from broker.client.pop.receipt_handle import ReceiptHandle
from broker.common.message_queue import MessageQueue
from broker.message.message import MessageExt
from broker.message.record import encode_record
from broker.remoting.protocol.body.consumer.lock import (
    MessageQueueAssignment,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from tests.support.fake_cluster import FakeBroker, FakeCluster

Place = tuple[int, int]  # queue id, queue offset


class FakePop:
    """Pops from one topic; ``mode`` is assigned to every member of a group.

    An unacknowledged message is delivered again after its invisible time, counted once more, from
    the same queue: real brokers move it to the retry topic.
    """

    def __init__(self, cluster: FakeCluster, broker: FakeBroker, topic: str = "T") -> None:
        self.cluster, self.broker, self.topic = cluster, broker, topic
        self.mode = "POP"
        self.visible_ms: dict[Place, int] = {}
        self.times: dict[Place, int] = {}
        self.acked: list[bytes] = []
        self.postponed: list[tuple[bytes, int]] = []  # body, ms
        self.done: set[Place] = set()
        self.polling_full = False
        broker.scripts |= {
            RequestCode.QUERY_ASSIGNMENT: self.assignment,
            RequestCode.POP_MESSAGE: self.pop,
            RequestCode.ACK_MESSAGE: self.ack,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self.change,
        }

    def fill(self, *bodies: bytes) -> None:
        """Store messages, one queue after the other."""
        for number, body in enumerate(bodies):
            queue_id = number % self.cluster.topics[self.topic]
            self.broker.store(MessageQueue(self.topic, self.broker.name, queue_id), body)

    def assignment(self, command: RemotingCommand) -> RemotingCommand:
        asked = QueryAssignmentRequestBody.from_bytes(command.body_bytes())
        pop = self.mode == "POP" and asked.topic == self.topic
        ids = [-1] if pop else range(self.cluster.topics[asked.topic or ""])
        assigned = [
            MessageQueueAssignment(
                message_queue=MessageQueue(asked.topic or "", self.broker.name, number),
                mode="POP" if pop else "PULL",
            )
            for number in ids
        ]
        body = QueryAssignmentResponseBody(message_queue_assignments=assigned)
        return response(command, body=body.to_bytes())

    def _visible(self, count: int) -> list[Place]:
        now_ms = self.cluster.clock.now_ms()
        found = [
            (number, offset)
            for number in range(self.cluster.topics[self.topic])
            for offset in range(
                len(self.broker.records[MessageQueue(self.topic, self.broker.name, number)])
            )
        ]
        return [
            place
            for place in found
            if place not in self.done and self.visible_ms.get(place, 0) <= now_ms
        ][:count]

    async def pop(self, command: RemotingCommand) -> RemotingCommand:
        if self.polling_full:
            return response(command, ResponseCode.POLLING_FULL, "polling full")
        fields = command.ext_fields
        end_s = self.cluster.now_s() + int(fields["pollTime"]) / 1000
        while not (places := self._visible(int(fields["maxMsgNums"]))):
            if self.cluster.now_s() >= end_s:
                return response(command, ResponseCode.POLLING_TIMEOUT, "nothing")
            try:
                async with asyncio.timeout(0.5):
                    await self.broker.arrived.wait()
            except TimeoutError:
                pass
        now_ms, invisible_ms = self.cluster.clock.now_ms(), int(fields["invisibleTime"])
        body = b""
        for place in places:
            self.visible_ms[place] = now_ms + invisible_ms
            message = self._message(place)
            message.reconsume_times = self.times.get(place, 0)
            self.times[place] = message.reconsume_times + 1
            body += encode_record(message)
        by_queue: dict[int, list[int]] = {}
        for number, offset in places:
            by_queue.setdefault(number, []).append(offset)
        ext = {
            "popTime": str(now_ms),
            "invisibleTime": str(invisible_ms),
            "reviveQid": "1",
            "restNum": "0",
            "startOffsetInfo": ";".join(f"0 {one} {min(of)}" for one, of in by_queue.items()),
            "msgOffsetInfo": ";".join(
                f"0 {one} {','.join(map(str, of))}" for one, of in by_queue.items()
            ),
        }
        return response(command, ext=ext, body=body)

    def _message(self, place: Place) -> MessageExt:
        queue = MessageQueue(self.topic, self.broker.name, place[0])
        return next(
            one
            for one in self.broker.log
            if (one.topic, one.queue_id, one.queue_offset) == (queue.topic, *place)
        )

    def _place(self, command: RemotingCommand) -> Place | None:
        """The place of a message that is in flight under the handle of the request."""
        handle = ReceiptHandle.parse(command.ext_fields["extraInfo"])
        place = handle.queue_id, handle.queue_offset
        return place if self.visible_ms[place] == handle.expires_ms else None

    def ack(self, command: RemotingCommand) -> RemotingCommand:
        place = self._place(command)
        if place is None:
            return response(command, ResponseCode.NO_MESSAGE, "not in flight")
        self.done.add(place)
        self.acked.append(self._message(place).body)
        return response(command)

    def change(self, command: RemotingCommand) -> RemotingCommand:
        place = self._place(command)
        if place is None:
            return response(command, ResponseCode.NO_MESSAGE, "not in flight")
        now_ms, invisible_ms = self.cluster.clock.now_ms(), int(command.ext_fields["invisibleTime"])
        self.visible_ms[place] = now_ms + invisible_ms
        self.postponed.append((self._message(place).body, invisible_ms))
        ext = {"popTime": str(now_ms), "invisibleTime": str(invisible_ms), "reviveQid": "2"}
        return response(command, ext=ext)
