"""Parsers of option values; each function raises ``ValueError`` with the reason.

``broker.common.topic`` is imported in the functions that need it: it imports msgspec, which takes
as long as the interpreter itself, and completion needs only the declarations.
"""

import time
from collections.abc import Callable
from typing import Literal

from broker.common.times import parse_duration_ms, parse_time_ms, parse_time_range
from broker.errors import RocketMQError
from mqadmin.output.view import FORMATS, JSONPATH, PROMETHEUS, query_of

NOW_WORD = "now"
# As in broker.common.java, which completion does not load.
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1

# Properties that are not set by name, and the next step.
_REFUSED_PROPERTIES = {
    "KEYS": "use --key",
    "TAGS": "use --tag",
    "DELAY": "use --delay-level",
    "TRAN_MSG": "leave it out: no producer would end this transaction",
}

# Reserved names that only brokers and clients set. Senders set the others, such as WAIT, by hand.
_INTERNAL_PROPERTIES = {
    *("1ST_POP_TIME", "ARRIVE_TIME", "BORN_TIMESTAMP", "CLUSTER", "CONSUME_START_TIME"),
    *("CORRECTION_FLAG", "CORRELATION_ID", "DLQ_ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_TOPIC"),
    *("DUP_INFO", "EXTEND_UNIQ_INFO", "INNER_BASE", "INNER_MULTI_QUEUE_OFFSET", "INNER_NUM"),
    *("MAX_OFFSET", "MAX_RECONSUME_TIMES", "MIN_OFFSET", "MQ2_FLAG", "MSG_REGION", "MSG_TYPE"),
    *("ORIGIN_MESSAGE_ID", "PGROUP", "POP_CK", "POP_CK_OFFSET", "PROPERTY_FORWARD_QUEUE_ID"),
    *("PUSH_REPLY_TIME", "REAL_QID", "REAL_TOPIC", "RECONSUME_TIME", "REDIRECT"),
    *("REPLY_TO_CLIENT", "TIMER_DELAY_LEVEL", "TIMER_DEL_UNIQKEY", "TIMER_DEQUEUE_MS"),
    *("TIMER_ENQUEUE_MS", "TIMER_OUT_MS", "TIMER_ROLL_TIMES", "TRACE_ON"),
    *("TRANSACTION_CHECK_TIMES", "TRANSFER_FLAG", "TRAN_PREPARED_QUEUE_OFFSET", "TTL"),
    *("UNIQ_KEY", "__BORNHOST", "__CRC32#", "__transactionId__"),
}
_TRANSIENT_PREFIX = "__RMQ.TRANSIENT."


def _with_value_error(parse: Callable[[str], int], text: str) -> int:
    """Call a parser of the core, whose RocketMQError becomes a ValueError."""
    try:
        return parse(text)
    except RocketMQError as error:
        raise ValueError(error.message) from error


def output_form(text: str) -> str:
    """Check an output format; the expression of ``jsonpath=EXPR`` is compiled later."""
    if text not in (*FORMATS, PROMETHEUS) and query_of(text) is None:
        raise ValueError(f"{text!r} is not one of {', '.join(FORMATS)}, {JSONPATH}=EXPR")
    return text


def duration_ms(text: str) -> int:
    """Read a duration (``500ms 10s 5m 2h 7d``) as milliseconds."""
    return _with_value_error(parse_duration_ms, text)


def interval_ms(text: str) -> int:
    """Read a duration of at least 1 ms: without a pause, requests would follow each other."""
    value = duration_ms(text)
    if value < 1:
        raise ValueError(f"must be longer than 0, not {text}")
    return value


def time_ms(text: str) -> int:
    """Read a time as epoch ms: RFC 3339, ``now``, ``-2h``, seconds or ms since the epoch."""
    now_ms = int(time.time() * 1000)
    return _with_value_error(lambda word: parse_time_ms(word, now_ms), text)


def time_range(text: str) -> str:
    """Check a range ``START..END`` of times, one of which may be empty; return the text."""

    def check(word: str) -> int:
        start, end = parse_time_range(word, int(time.time() * 1000))
        if start is None and end is None:
            raise ValueError("both ends of the window are open")
        return 0

    _with_value_error(check, text)
    return text


def _perm_functions() -> tuple[Callable[[str], int], Callable[[int], str]]:
    from broker.common.topic import parse_perm, perm_text

    return parse_perm, perm_text


def perm(text: str) -> int:
    """Read a permission (``rw``, ``r``, ``w`` or 2, 4, 6) as a number: 4 read + 2 write."""
    return _with_value_error(_perm_functions()[0], text)


def perm_text(value: int) -> str:
    """Format a permission for a table: 6 as ``RW-``."""
    return _perm_functions()[1](value)


def start_position(text: str) -> Literal["earliest", "latest"] | int:
    """Read a start position: ``earliest``, ``latest``, or a time as epoch ms."""
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    return time_ms(text)


def start_word(text: str) -> str:
    """Check a start position and return the text; the command resolves times when it runs."""
    start_position(text)
    return text


def integer(text: str, lowest: int, highest: int, base: int = 10) -> int:
    """Read an integer within bounds; unlike ``int`` refuse "1_0", blanks and non-ASCII digits."""
    try:
        if not text.isascii() or "_" in text or text != text.strip():
            raise ValueError
        number = int(text, base)
    except ValueError:
        raise ValueError(f"{text!r:.80} is not an integer") from None
    if not lowest <= number <= highest:
        raise ValueError(f"must be between {lowest} and {highest}, not {text:.80}")
    return number


def decimal(text: str) -> float:
    """Read a decimal number in ASCII digits."""
    if not text.isascii() or "_" in text or text != text.strip():
        raise ValueError(f"{text!r:.80} is not a number")
    return float(text)


def count(text: str) -> int:
    """Read an integer from 1 to 2^63 - 1."""
    return integer(text, 1, INT64_MAX)


def positive_int32(text: str) -> int:
    """Read an integer from 1 to 2^31 - 1, for fields of 32 bits."""
    return integer(text, 1, INT32_MAX)


def byte_size(text: str) -> int:
    """Read a number of bytes from 1 to 1 GiB: ``100``, ``1k`` (1024), ``2m``."""
    factor = {"k": 1 << 10, "m": 1 << 20}.get(text[-1:].lower(), 1)
    size = count(text[:-1] if factor > 1 else text) * factor
    if size > 1 << 30:
        raise ValueError(f"{text} is more than 1024m")
    return size


def per_second(text: str) -> float:
    """Read a rate per second: ``50/s`` or ``50``, ``0.5/s`` for one in two seconds."""
    try:
        rate = decimal(text.removesuffix("/s"))
    except ValueError:
        raise ValueError(f"{text!r} is not a rate (example: 50/s)") from None
    if not 0 < rate < 1e9:
        raise ValueError(f"must be greater than 0 and less than 1e9 per second, not {text}")
    return rate


def heap_size(text: str) -> str:
    """Check a heap size of a Java process, such as ``512m`` or ``2g``; return the text."""
    if not (text.isascii() and text[:-1].isdecimal() and text[-1] in "kKmMgG" and int(text[:-1])):
        raise ValueError(f"{text!r} is not a Java heap size (examples: 512m, 2g)")
    return text


def whole(text: str) -> int:
    """Read an integer from 0 to 2^63 - 1, also hexadecimal with ``0x``."""
    return integer(text, 0, INT64_MAX, base=0)


def int32(text: str) -> int:
    """Read an integer from 0 to 2^31 - 1, also hexadecimal with ``0x``, for fields of 32 bits."""
    return integer(text, 0, INT32_MAX, base=0)


def topic_name(text: str) -> str:
    """Check a topic name and return it."""
    from broker.common.topic import check_topic_name

    reason = check_topic_name(text)
    if reason:
        raise ValueError(reason)
    return text


def attribute(text: str) -> str:
    """Check an attribute change and return it: ``+name=value`` sets, ``-name`` removes."""
    sign, body = text[:1], text[1:]
    name, separator, value = body.partition("=")
    if sign == "+" and name and separator and value:
        return text
    if sign == "-" and name and not separator:
        return text
    raise ValueError(f"{text!r} is neither +name=value nor -name")


def user_property(text: str) -> str:
    """Check a user property ``name=value`` of a message to send."""
    name = pair(text).partition("=")[0]
    if name in _REFUSED_PROPERTIES:
        raise ValueError(f"{name} is a property of RocketMQ: {_REFUSED_PROPERTIES[name]}")
    if name in _INTERNAL_PROPERTIES or name.startswith(_TRANSIENT_PREFIX):
        raise ValueError(f"{name} is a property of RocketMQ: only brokers and clients set it")
    return text


def pair(text: str) -> str:
    """Check a word ``name=value`` and return it."""
    name, separator, _ = text.partition("=")
    if not name or not separator:
        raise ValueError(f"{text!r} is not name=value")
    return text
