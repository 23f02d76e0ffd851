"""Java arithmetic and text: wrap, divide, hash and print numbers as the JVM does.

All code that depends on Java integer overflow, ``String.hashCode`` or ``Double.toString`` uses this
module, so that each rule is implemented and tested once.
"""

from operator import mul
from struct import unpack

_POWER_COUNT = 1024  # longest text hashed in one pass; longer text is hashed in pieces
_powers = [1]
while len(_powers) <= _POWER_COUNT:
    _powers.append(_powers[-1] * 31 & 0xFFFFFFFF)
_POWERS = tuple(_powers)
del _powers

INT16_MAX = (1 << 15) - 1
INT32_MIN = -(1 << 31)
INT32_MAX = (1 << 31) - 1
INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1
_LONGEST_NUMBER = 19  # digits of INT64_MAX


def to_int32(number: int) -> int:
    """Wrap any integer to a Java ``int`` (signed, 32 bits)."""
    return ((number + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def to_int64(number: int) -> int:
    """Wrap any integer to a Java ``long`` (signed, 64 bits)."""
    return ((number + 0x8000000000000000) & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def parse_number(
    text: str | bytes, minimum: int = INT64_MIN, maximum: int = INT64_MAX
) -> int | None:
    """Parse a decimal number; None if ``text`` is not a number or not within the bounds.

    For all numbers that peers or files contain as text: ``int`` also accepts "1_0" and "\u0661",
    and raises ValueError beyond 4,300 digits, which ``isdigit`` does not catch. ASCII digits only.

    **Source:** java.lang.Long#parseLong.
    """
    if len(text) < _LONGEST_NUMBER and text.isascii() and text.isdigit():  # almost always
        number = int(text)
        return number if minimum <= number <= maximum else None
    digits = text[1:] if text[:1] in ("-", "+", b"-", b"+") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    if len(digits) > _LONGEST_NUMBER:
        zero = "0" if isinstance(digits, str) else b"0"
        digits = digits.lstrip(zero) or zero  # type: ignore[arg-type]
        if len(digits) > _LONGEST_NUMBER:
            return None
    number = -int(digits) if text[:1] in ("-", b"-") else int(digits)
    return number if minimum <= number <= maximum else None


def _units(text: str) -> tuple[int, ...]:
    """Return the UTF-16 code units of ``text``, which Java counts and hashes."""
    data = text.encode("utf-16-le", "surrogatepass")
    return unpack(f"<{len(data) // 2}H", data)


def string_hash(text: str | bytes) -> int:
    """``String.hashCode`` of ``text`` (bytes are UTF-8): a signed 32-bit integer.

    h = 31 * h + unit over the UTF-16 units, wrapping at 32 bits. Short ASCII text uses a fast path.

    **Source:** java.lang.String#hashCode; RocketMQ MessageExtBrokerInner#tagsString2tagsCode.
    """
    if text.isascii() and len(text) <= _POWER_COUNT:
        data = text if isinstance(text, bytes) else text.encode()
        total: int = sum(map(mul, data[::-1], _POWERS))
        return ((total + 0x80000000) & 0xFFFFFFFF) - 0x80000000
    return extend_hash(0, text)


def extend_hash(prefix_hash: int, text: str | bytes) -> int:
    """``hashCode`` of prefix + ``text``, computed from the prefix's hash; signed 32 bits.

    For ``topic#key`` the hash of the topic is computed only once per topic
    (see :func:`key_hash_prefix`). Bytes are UTF-8; invalid UTF-8 is decoded as in Java.
    """
    units: bytes | tuple[int, ...]
    if text.isascii():
        units = text if isinstance(text, bytes) else text.encode()
        if len(units) <= _POWER_COUNT:
            total: int = prefix_hash * _POWERS[len(units)] + sum(map(mul, units[::-1], _POWERS))
            return ((total + 0x80000000) & 0xFFFFFFFF) - 0x80000000
    else:
        units = _units(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)
    result = prefix_hash
    for start in range(0, len(units), _POWER_COUNT):
        piece = units[start : start + _POWER_COUNT]
        result = (result * _POWERS[len(piece)] + sum(map(mul, piece[::-1], _POWERS))) & 0xFFFFFFFF
    return to_int32(result)


def key_hash_prefix(topic: str) -> int:
    """Hash of ``topic#``, the common prefix of a topic's index keys, for ``extend_hash``.

    **Source:** RocketMQ IndexService#buildKey.
    """
    return extend_hash(string_hash(topic), "#")


def double_text(number: float) -> str:
    """``Double.toString``: ``0.0``, ``12.5``, ``1.0E10``, ``1.0E-5``, ``NaN``, ``-Infinity``.

    The digits are the shortest that parse to the same double (as in JDK 19 and later).
    """
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        text = repr(number)
        if "e" not in text:
            return text
    mantissa, _, exponent_text = repr(number).partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0") or "0"
    leading_zeros = len(whole + fraction) - len((whole + fraction).lstrip("0"))
    exponent = int(exponent_text or "0") + len(whole) - 1 - leading_zeros
    digits = digits.rstrip("0") or "0"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
