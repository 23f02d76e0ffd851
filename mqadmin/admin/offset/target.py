"""The target of a reset: the text after ``--to`` as a value, and its offset in each queue.

=================  =====================================================================
``earliest``       the oldest offset kept
``latest``         the end of the queue
``shift:-100``     this number of messages from the committed offset
``duration:1h``    the first message stored that long ago or later
``offset:7``       this queue offset
``file:PATH``      the offset per queue in an undo or export file; null removes the offset
digits             a queue offset of any length; ``@1700000000`` is a time
anything else      a time
=================  =====================================================================
"""

from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec

from broker.common.java import INT64_MAX, INT64_MIN, parse_number
from broker.common.message_queue import MessageQueue
from broker.common.times import parse_duration_ms, parse_time_ms
from broker.errors import ConfigError, RocketMQError
from mqadmin.admin.message.queue_reader import QueueReader
from mqadmin.admin.offset.offset_file import load_offsets
from mqadmin.admin.session import AdminSession

#: Lengths of epoch seconds and milliseconds written in digits, from 2001 on.
EPOCH_DIGITS = (10, 13)


class Unnamed(Enum):
    """The target does not contain a queue; None would mean "no committed offset"."""

    UNNAMED = "unnamed"


UNNAMED = Unnamed.UNNAMED

Selection = int | None | Unnamed | RocketMQError


class ResetTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target: ``kind`` is earliest, latest, shift, time, offset or file.

    ``number`` is the shift, the time (epoch ms) or the offset, ``offsets`` the content of a file.
    """

    kind: str
    number: int = 0
    offsets: Mapping[MessageQueue, int | None] = {}


def parse_target(text: str, now_ms: int) -> ResetTarget:
    """Parse the text after ``--to``; ConfigError when it is not a target."""
    word = text.strip()
    kind, colon, rest = word.partition(":")
    kind = kind.lower()
    if word.lower() in ("earliest", "latest"):
        return ResetTarget(kind=word.lower())
    if colon and kind == "shift":
        return ResetTarget(kind="shift", number=_whole(rest, word))
    if colon and kind == "offset":
        return ResetTarget(kind="offset", number=_natural(rest, word))
    if colon and kind == "duration":
        return ResetTarget(kind="time", number=now_ms - parse_duration_ms(rest))
    if colon and kind == "time":
        return ResetTarget(kind="time", number=parse_time_ms(rest, now_ms))
    if colon and kind == "file":
        saved = load_offsets(rest)
        return ResetTarget(
            kind="file",
            offsets={
                MessageQueue(one.topic, one.broker_name, one.queue_id): one.consumer_offset
                for one in saved.offsets
                if one.broker_name is not None
            },
        )
    if word.isascii() and word.isdigit():
        return ResetTarget(kind="offset", number=_natural(word, word))
    try:
        return ResetTarget(kind="time", number=parse_time_ms(word, now_ms))
    except ConfigError as error:
        raise ConfigError(
            f"not a place to reset to: {text!r:.80}",
            "earliest, latest, a time, an offset, shift:-100, duration:1h or file:PATH",
        ) from error


def target_offsets(
    admin: AdminSession,
    target: ResetTarget,
    queues: Sequence[MessageQueue],
    ranges: Sequence[tuple[int, int, int | None]],
) -> Sequence[Selection]:
    """Return the new offset of each queue, even if it is outside the queue's range.

    ``ranges``: (min offset, max offset, committed offset) per queue. None: no committed offset.
    UNNAMED: no entry in the file, or a shift without a committed offset.
    """
    if target.kind == "time":
        return QueueReader(admin, routes=admin.routes).search_offsets(queues, target.number)
    if target.kind == "file":
        return [target.offsets.get(queue, UNNAMED) for queue in queues]
    if target.kind == "shift":
        return [
            UNNAMED if committed is None else committed + target.number
            for _, _, committed in ranges
        ]
    if target.kind == "earliest":
        return [low for low, _, _ in ranges]
    if target.kind == "latest":
        return [high for _, high, _ in ranges]
    return [target.number] * len(queues)


def _whole(text: str, word: str) -> int:
    number = parse_number(text.strip())
    if number is None:
        raise ConfigError(
            f"not a number of messages: {word!r:.80}",
            f"write shift:-100 or shift:+100, from {INT64_MIN} to {INT64_MAX}",
        )
    return number


def _natural(text: str, word: str) -> int:
    number = parse_number(text.strip(), 0)
    if number is None:
        raise ConfigError(
            f"not a queue offset: {word!r:.80}", f"write a number from 0 to {INT64_MAX}"
        )
    return number
