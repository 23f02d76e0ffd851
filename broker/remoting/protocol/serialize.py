"""The two header encodings.

JSON (serialize type 0): an object with ``code``, ``extFields``, ``flag``, ``language``, ``opaque``,
``remark``, ``serializeTypeCurrentRPC``, ``version``, written in this order and read in any order.

ROCKETMQ (serialize type 1), all big-endian::

    0      2    3       5       9      13          17        17+r      21+r
    +------+----+-------+-------+-------+-----------+---------+---------+-----------
    | code |lang|version| opaque| flag  | remark len| remark  | ext len | entries...
    +------+----+-------+-------+-------+-----------+---------+---------+-----------
                                                    entry: int16 len, key, int32 len, value

In the ROCKETMQ form text of length 0 is read as null, so an empty value does not survive a round
trip, and a code above 32767 loses its upper bits (POP requests must use JSON). Java does the same.

**Source:** RocketMQ ``RemotingSerializable``, ``RocketMQSerializable``.
"""

from struct import Struct, error
from typing import Any

import msgspec

from broker.common.java import parse_number
from broker.errors import LocalProtocolError, RemoteProtocolError
from broker.remoting.protocol.codes import LANGUAGES, language_code, language_name
from broker.remoting.protocol.command import JSON, ROCKETMQ, RemotingCommand

SERIALIZE_JSON = 0
SERIALIZE_ROCKETMQ = 1

MAX_HEADER_BYTES = 256 * 1024
"""Longest header sent or accepted. The format allows 16 MiB, but a header is decoded on the event
loop before access is checked. Java's longest header in practice is a send request with 32,767 bytes
of properties. JSON escapes each property separator as six bytes, so that even properties without a
name or value, which consist of separators only, need less than 200 KiB."""

MAX_EXT_FIELDS = 11_000
"""Most ext fields of a header, and most undeclared fields of a JSON header. Their number, not their
length, determines the time and memory that a header takes: the slower readers need 1 µs per field.
A header of 64 KiB cannot have as many: an empty ROCKETMQ field has 6 bytes."""

MAX_RESPONSE_HEADER_BYTES = 1024 * 1024
"""Longest header accepted in a response on an outgoing connection: the response to a batch contains
32 characters per message."""

MAX_TOLERANT_HEADER_BYTES = 4 * 1024
"""Longest header accepted in non-standard JSON (as in handwritten scripts): the tolerant reader
needs 1 µs per byte, the other readers less than 0.1 µs."""

_FIXED = Struct(">hBhiiI")  # code, language, version, opaque, flag, remark length
_UINT32 = Struct(">I")
_UINT16 = Struct(">H")

_decode_json_fast = msgspec.json.Decoder(RemotingCommand).decode
_encode_json_value = msgspec.json.Encoder().encode

_LANGUAGE_JSON: dict[Any, bytes] = {name: _encode_json_value(name) for name in LANGUAGES}

_KNOWN = frozenset(RemotingCommand.__struct_encode_fields__)


def decode_header(serialize_type: int, header: bytes) -> RemotingCommand:
    """Decode header bytes into a command without body.

    ``serialize_type`` is 0 for JSON, 1 for ROCKETMQ. Raises RemoteProtocolError for any other
    type and for an invalid header.
    """
    if serialize_type == SERIALIZE_JSON:
        return decode_json_header(header)
    if serialize_type == SERIALIZE_ROCKETMQ:
        return decode_rocketmq_header(header)
    raise RemoteProtocolError(f"header: unknown serialize type {serialize_type}", position=4)


def encode_header(command: RemotingCommand) -> bytes:
    """Encode the header in the form of ``command.serialize_type``."""
    if command.serialize_type == ROCKETMQ:
        return encode_rocketmq_header(command)
    return encode_json_header(command)


def decode_json_header(header: bytes) -> RemotingCommand:
    """Decode a JSON header; a header that the strict reader rejects is read leniently.

    Ext values that are numbers or booleans become text, null values are dropped, undeclared fields
    are kept in ``extra``. A ``$ref`` in a header is not resolved. Raises RemoteProtocolError.
    """
    try:
        command = _decode_json_fast(header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode_json_lenient(header)
    if len(command.ext_fields) > MAX_EXT_FIELDS:
        raise _too_many_fields()
    command.serialize_type = JSON
    command.body = b""  # a peer may have sent our internal field "#body"
    return command


def _read_json_lenient(header: bytes) -> Any:
    """Decode a header with the next slower readers; only the last needs more than 0.1 µs/byte."""
    from broker.common.encoding import (
        java_json,  # costs start-up time, needed only for unusual headers
    )

    try:
        value: Any = msgspec.json.decode(header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = header.decode("utf-8", "replace")
        try:
            value = java_json.loads_standard(text)
        except ValueError as error:
            if len(header) > MAX_TOLERANT_HEADER_BYTES:
                raise RemoteProtocolError(
                    f"header of {len(header)} bytes is not standard JSON: {error}"
                ) from None
            from broker.common.encoding.java_json_reader import read_text

            value = read_text(text)
    java_json.check_depth(header, value)
    return value


def _decode_json_lenient(header: bytes) -> RemotingCommand:
    value = _read_json_lenient(header)
    if not isinstance(value, dict):
        raise RemoteProtocolError("header: not a JSON object", position=0)
    ext = value.get("extFields")
    if ext is not None and not isinstance(ext, dict):
        raise RemoteProtocolError("header field extFields: not an object", position=0)
    if max(len(value), len(ext or ())) > MAX_EXT_FIELDS:
        raise _too_many_fields()
    language = value.get("language", "JAVA")
    if isinstance(language, int) and not isinstance(language, bool):
        language = language_name(language)
    elif language is not None:
        language = _text(language)
    remark = value.get("remark")
    extra = {_text(name): field for name, field in value.items() if name not in _KNOWN}
    return RemotingCommand(
        code=_int32(value, "code"),
        language=language,
        version=_int32(value, "version"),
        opaque=_int32(value, "opaque"),
        flag=_int32(value, "flag"),
        remark=None if remark is None else _text(remark),
        ext_fields={_text(k): _text(v) for k, v in ext.items() if v is not None} if ext else {},
        extra=extra or None,
    )


def _too_many_fields() -> RemoteProtocolError:
    return RemoteProtocolError(f"header: more than {MAX_EXT_FIELDS} fields")


def _int32(fields: dict[Any, Any], name: str) -> int:
    value = fields.get(name, 0)
    number: int | None
    if isinstance(value, str):
        number = parse_number(value)
    else:
        try:
            number = 0 if value is None else int(value)
        except (ValueError, TypeError, OverflowError):
            number = None
    if number is None or not -0x80000000 <= number <= 0x7FFFFFFF:
        raise RemoteProtocolError(f"header field {name}: {value!r:.40} is not a 32-bit integer")
    return number


def _text(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, dict | list | tuple):
        try:
            return _encode_json_value(value).decode()
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise RemoteProtocolError(f"header: a value without text form: {error}") from None
    # An escape can decode to an unpaired surrogate, which cannot be encoded: '?' as in Java
    return str(value).encode("utf-8", "replace").decode()


def encode_json_header(command: RemotingCommand) -> bytes:
    """Encode a JSON header with Java's field order; omits nulls and an empty ``extFields``.

    Raises LocalProtocolError for text that is not encodable.
    """
    if command.extra:
        return _encode_json_extra(command)
    try:
        ext = command.ext_fields
        remark = command.remark
        language = _LANGUAGE_JSON.get(command.language)
        if language is None:
            language = _encode_json_value(command.language)
        return b'{"code":%d%b,"flag":%d,"language":%b,"opaque":%d%b%b,"version":%d}' % (
            command.code,
            b',"extFields":' + _encode_json_value(ext) if ext else b"",
            command.flag,
            language,
            command.opaque,
            b"" if remark is None else b',"remark":' + _encode_json_value(remark),
            b',"serializeTypeCurrentRPC":"JSON"',
            command.version,
        )
    except (UnicodeEncodeError, TypeError) as err:
        raise LocalProtocolError(
            f"request {command.code}: header cannot be written: {err}"
        ) from err


def _encode_json_extra(command: RemotingCommand) -> bytes:
    from broker.common.encoding import java_json

    fields: dict[str, Any] = dict(command.extra or ())
    fields.update(
        code=command.code,
        flag=command.flag,
        language=command.language,
        opaque=command.opaque,
        serializeTypeCurrentRPC=JSON,
        version=command.version,
    )
    if command.ext_fields:
        fields["extFields"] = command.ext_fields
    if command.remark is not None:
        fields["remark"] = command.remark
    return str(java_json.dumps(dict(sorted(fields.items())))).encode()


def decode_rocketmq_header(header: bytes) -> RemotingCommand:
    """Decode a ROCKETMQ header; of two entries with the same name the last one is used.

    Raises RemoteProtocolError with the position in the header when a length exceeds it.

    **Source:** RocketMQ ``RocketMQSerializable#rocketMQProtocolDecode``.
    """
    end = len(header)
    try:
        code, language, version, opaque, flag, size = _FIXED.unpack_from(header)
        position = 17 + size
        remark = _decode_text(header, 17, position, end) if size else None
        (size,) = _UINT32.unpack_from(header, position)
    except error:
        raise RemoteProtocolError(
            f"ROCKETMQ header of {end} bytes ends inside its fixed part", position=end
        ) from None
    position += 4
    if position + size != end:
        raise RemoteProtocolError(
            f"ROCKETMQ header: ext fields of {size} bytes, {end - position} are there",
            position=position,
        )
    return RemotingCommand(
        code=code,
        language=LANGUAGES[language] if language < len(LANGUAGES) else language,
        version=version,
        opaque=opaque,
        flag=flag,
        remark=remark,
        ext_fields=_decode_ext(header, position, end) if size else {},
        serialize_type=ROCKETMQ,
    )


def _decode_ext(header: bytes, position: int, end: int) -> dict[str, str]:
    ext: dict[str, str] = {}
    try:
        for _ in range(MAX_EXT_FIELDS):
            if position >= end:
                return ext
            (size,) = _UINT16.unpack_from(header, position)
            start = position + 2
            position = start + size
            name = _decode_text(header, start, position, end)
            (size,) = _UINT32.unpack_from(header, position)
            start = position + 4
            position = start + size
            value = _decode_text(header, start, position, end)
            if name and value:  # Java reads empty text as null
                ext[name] = value
    except error:
        raise RemoteProtocolError(
            "ROCKETMQ header: ext fields end inside a length", position=position
        ) from None
    if position < end:
        raise _too_many_fields()
    return ext


def _decode_text(header: bytes, start: int, stop: int, end: int) -> str:
    if stop > end:
        raise RemoteProtocolError(
            f"ROCKETMQ header: text of {stop - start} bytes, {end - start} are left",
            position=start,
        )
    return header[start:stop].decode("utf-8", "replace")


def encode_rocketmq_header(command: RemotingCommand) -> bytes:
    """Encode a ROCKETMQ header; the code is cut to its low 16 bits, as in Java.

    Raises LocalProtocolError for text that is not encodable or a key longer than 32767 bytes.

    **Source:** RocketMQ ``RocketMQSerializable#rocketMQProtocolEncode``.
    """
    language = command.language
    try:
        remark = command.remark.encode() if command.remark else b""
        parts = []
        for name, value in command.ext_fields.items():
            key = name.encode()
            data = value.encode()
            if len(key) > 0x7FFF:
                raise LocalProtocolError(f"request {command.code}: ext name of {len(key)} bytes")
            parts.append(b"%b%b%b%b" % (_UINT16.pack(len(key)), key, _UINT32.pack(len(data)), data))
        ext = b"".join(parts)
        return b"%b%b%b%b" % (
            _FIXED.pack(
                ((command.code + 0x8000) & 0xFFFF) - 0x8000,
                language_code("OTHER" if language is None else language),
                ((command.version + 0x8000) & 0xFFFF) - 0x8000,
                command.opaque,
                command.flag,
                len(remark),
            ),
            remark,
            _UINT32.pack(len(ext)),
            ext,
        )
    except (UnicodeEncodeError, error, AttributeError) as err:
        raise LocalProtocolError(
            f"request {command.code}: header cannot be written: {err}"
        ) from err
