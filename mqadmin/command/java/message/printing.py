"""Java's printMsg, printMsgByQueue and consumeMessage: read queues, commit nothing."""

from collections import Counter
from collections.abc import Iterator, Sequence

from broker.common.java import INT32_MAX
from broker.common.message_queue import MessageQueue
from broker.common.times import parse_time_ms
from broker.errors import ConfigError, RocketMQError
from broker.message.message import MessageExt
from mqadmin.admin.message.queue_reader import FOUND, NO_NEW_MESSAGE, QueueReader
from mqadmin.admin.message.read import chosen_queues
from mqadmin.admin.message.record import unwrapped
from mqadmin.admin.session import AdminSession
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command
from mqadmin.command.java.message.message_text import decoded, message_line
from mqadmin.command.java.message.query import checked_charset

RULE = "-" * 56
TAG_ROW = "Tag: %-30s Count: %d"

#: Messages of one pull. **Source:** RocketMQ ``PrintMessageSubCommand``.
BATCH = 32


@java_command("printMsg")
def print_messages(call: JavaCall) -> None:
    """Print the messages of each queue of a topic.

    **Source:** RocketMQ ``PrintMessageSubCommand``.
    """
    charset = checked_charset(call, "c")
    with_body = call.truth("d", True)
    if call.get("l") is not None:
        raise call.fault("l", "LMQ topics are not supported")
    with call.admin.without_deadline() as admin:
        reader = QueueReader(admin, routes=admin.routes)
        queues = chosen_queues(admin.routes.get(call.text("t")), None, None)
        for queue, (begin, end), bounds in _ranges(call, reader, queues, "b", "e"):
            call.line(f"minOffset={bounds[0]}, maxOffset={bounds[1]}, {queue_text(queue)}")
            for message in _read(call, reader, queue, begin, end):
                call.line(_line(message, queue, charset, with_body=bool(with_body)))
            call.line(RULE)


@java_command("printMsgByQueue")
def print_queue(call: JavaCall) -> None:
    """Print the messages of one queue (-p true), or count them by tag (-f true).

    **Source:** RocketMQ ``PrintMessageByQueueCommand``, which stops at the first batch without a
    match of the tag expression.
    """
    charset = checked_charset(call, "c")
    shown, counted = bool(call.truth("p", False)), bool(call.truth("f", False))
    if not shown and not counted:
        raise UsageFault("printMsgByQueue prints nothing", "add -p true, -f true, or both")
    with_body = bool(call.truth("d", False))
    tags: Counter[str] = Counter()
    with call.admin.without_deadline() as admin:
        reader = QueueReader(admin, routes=admin.routes)
        queues = chosen_queues(
            admin.routes.get(call.text("t")), call.text("a"), call.whole("i", highest=INT32_MAX)
        )
        for queue, (begin, end), _ in _ranges(call, reader, queues, "b", "e"):
            for message in _read(call, reader, queue, begin, end):
                if message.tags:
                    tags[message.tags] += 1
                if shown:
                    call.line(_line(message, queue, charset, with_body=with_body))
    if counted:
        for tag, count in tags.most_common():
            call.line(TAG_ROW % (tag, count))


@java_command("consumeMessage")
def consume_messages(call: JavaCall) -> None:
    """Print up to -c messages of a topic, a broker's queue, or from an offset on.

    **Source:** RocketMQ ``ConsumeMessageCommand``. Nothing is committed.
    """
    _check_consume(call)
    left = call.whole("c", 128, lowest=1)
    with call.admin.without_deadline() as admin:
        reader = _reader(call, admin)
        queues = chosen_queues(
            admin.routes.get(call.text("t")), call.get("b"), call.number("i", highest=INT32_MAX)
        )
        for queue, (begin, end), _ in _ranges(call, reader, queues, "s", "e"):
            left -= _consume(call, reader, queue, (call.whole("o", begin), end), left)
            if left <= 0:
                return


def _check_consume(call: JavaCall) -> None:
    """Refuse options that Java does not apply or silently ignores."""
    if call.get("b") is not None and call.get("i") is None:
        raise call.fault("b", "a broker needs a queue: -i")
    if call.get("i") is not None and call.get("b") is None:
        raise call.fault("i", "a queue needs a broker: -b")
    if call.get("o") is not None and call.get("i") is None:
        raise call.fault("o", "an offset needs a queue: -b and -i")


def _reader(call: JavaCall, admin: AdminSession) -> QueueReader:
    group = call.get("g")
    if group is None:
        return QueueReader(admin, routes=admin.routes)
    return QueueReader(admin, group=group, routes=admin.routes)


def _consume(
    call: JavaCall, reader: QueueReader, queue: MessageQueue, span: tuple[int, int], left: int
) -> int:
    """Print the messages of one queue, at most ``left``; return their number."""
    offset, end = span
    count = 0
    while count < left:
        size = min(BATCH, left - count)
        result = reader.pull(queue, offset, max_messages=size)
        messages = [one for one in unwrapped(result.messages) if one.queue_offset < end]
        if result.status == FOUND and messages:
            call.line("Consume ok")
            for message in messages:
                call.line(_line(message, queue, "UTF-8", with_body=True))
            count += len(messages)
        if result.status == NO_NEW_MESSAGE or result.next_begin_offset <= offset or not messages:
            status = "NO_NEW_MSG" if result.status in (FOUND, NO_NEW_MESSAGE) else result.status
            call.line(f"{queue_text(queue)} print msg finished. status={status}, offset={offset}")
            break
        offset = result.next_begin_offset
    return count


Range = tuple[MessageQueue, tuple[int, int], tuple[int, int]]


def _ranges(
    call: JavaCall, reader: QueueReader, queues: Sequence[MessageQueue], begin: str, end: str
) -> Iterator[Range]:
    """Yield queue, offsets to read, and min and max offset; errors of brokers are reported."""
    low, high = reader.min_offsets(queues), reader.max_offsets(queues)
    first, last = low, high
    if call.get(begin) is not None:
        first = reader.search_offsets(queues, java_time(call, begin))
    if call.get(end) is not None:
        last = reader.search_offsets(queues, java_time(call, end))
    for queue, lowest, highest, start, stop in zip(queues, low, high, first, last, strict=True):
        numbers = (lowest, highest, start, stop)
        failed = next((one for one in numbers if isinstance(one, RocketMQError)), None)
        if failed is not None:
            raise failed
        known = [one for one in numbers if isinstance(one, int)]
        yield queue, (max(known[0], known[2]), min(known[1], known[3])), (known[0], known[1])


def _read(
    call: JavaCall, reader: QueueReader, queue: MessageQueue, begin: int, end: int
) -> Iterator[MessageExt]:
    if begin >= end:
        return iter(())
    return unwrapped(reader.scan(queue, begin, end, tags=call.get("s") or "*"))


def _line(message: MessageExt, queue: MessageQueue, charset: str, *, with_body: bool) -> str:
    body = decoded(message, charset) if with_body else "NOT PRINT BODY"
    return message_line(message, queue.broker_name, body)


def queue_text(queue: MessageQueue) -> str:
    """Format a queue. **Source:** RocketMQ ``MessageQueue#toString``."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )


def java_time(call: JavaCall, option: str) -> int:
    """Return the time of an option: epoch ms, or ``yyyy-MM-dd#HH:mm:ss:SSS``."""
    text = call.text(option)
    try:
        return parse_time_ms(f"@{text}" if text.isdecimal() else text, call.now_ms())
    except ConfigError as error:
        raise call.fault(option, error.message) from None
