"""Read the system topics of one broker, which may have no route."""

from collections.abc import Iterator, Sequence

from broker.common.message_queue import MessageQueue
from broker.errors import BrokerError, RocketMQError
from broker.message.message import MessageExt
from broker.remoting.protocol.codes import ResponseCode
from mqadmin.admin.message.queue_reader import QueueReader
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target


class BrokerReader(QueueReader):
    """Reads the queues of one broker by offset; no offset is committed."""

    def __init__(self, admin: AdminSession, target: Target) -> None:
        super().__init__(admin)
        self._target = target

    def address(self, queue: MessageQueue) -> str:
        """Return the broker's address for every queue."""
        return self._target.address

    def queue(self, topic: str, queue_id: int) -> MessageQueue:
        """Return a queue of this broker."""
        return MessageQueue(topic, self._target.broker_name or "", queue_id)

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """Return min and max offset, (0, 0) if the broker does not have the topic."""
        found = [*self.min_offsets([queue]), *self.max_offsets([queue])]
        numbers = []
        for answer in found:
            if isinstance(answer, RocketMQError):
                if _is_unknown(answer):
                    return 0, 0
                raise answer
            numbers.append(max(0, answer))
        return numbers[0], numbers[1]

    def ends(self, queues: Sequence[MessageQueue]) -> list[int]:
        """Return the max offset of each queue, 0 if the broker does not have the topic."""
        numbers = []
        for answer in self.max_offsets(queues):
            if isinstance(answer, RocketMQError) and not _is_unknown(answer):
                raise answer
            numbers.append(0 if isinstance(answer, RocketMQError) else max(0, answer))
        return numbers

    def messages(
        self, queue: MessageQueue, begin: int, end: int | None = None
    ) -> Iterator[MessageExt]:
        """Yield the messages of a queue; none if the broker does not have the topic."""
        try:
            yield from self.scan(queue, begin, end)
        except BrokerError as error:
            if not _is_unknown(error):
                raise


def _is_unknown(error: RocketMQError) -> bool:
    return isinstance(error, BrokerError) and error.code == ResponseCode.TOPIC_NOT_EXIST
