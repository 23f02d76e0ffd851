"""The two message ids: offsetMsgId (the broker's) and uniqKey (the producer's).

::

    offsetMsgId  |address 4 or 16|port 4|physicalOffset 8|                     upper-case hex
    uniqKey      |address 4 or 16|pid 2|loader hash 4|ms in month 4|counter 2| upper-case hex

Both have 32 digits (IPv4) or 56 (IPv6); they can be distinguished only by context or by an invalid
port.

**Source:** RocketMQ MessageDecoder#createMessageId, #decodeMessageId, MessageClientIDSetter.
"""

from struct import pack, unpack
from typing import NamedTuple

from broker.common.address import decode_ip, encode_address, encode_ip
from broker.errors import RemoteProtocolError

_IPV4_ID_SIZE = 16
_IPV6_ID_SIZE = 28


def offset_msg_id(host: str | bytes, physical_offset: int) -> str:
    """Compose an offsetMsgId from the store host (``ip:port`` or its 8/20 bytes).

    Raises LocalProtocolError if the text is not an IP address with port.
    """
    raw = encode_address(host) if isinstance(host, str) else bytes(host)
    return (raw + physical_offset.to_bytes(8, "big", signed=True)).hex().upper()


def _id_bytes(text: str, kind: str) -> bytes:
    if len(text) in (2 * _IPV4_ID_SIZE, 2 * _IPV6_ID_SIZE) and text.isalnum():
        try:
            return bytes.fromhex(text)
        except ValueError:
            pass
    raise RemoteProtocolError(f"not {kind}: {text!r:.80}", "an id has 32 or 56 hexadecimal digits")


def parse_offset_msg_id(text: str) -> tuple[str, int, int]:
    """Split an offsetMsgId (either case) into (ip, port, physical offset).

    Raises RemoteProtocolError if it does not have 32 or 56 hex digits, or if the port is not
    0..65535 or the offset is negative: then it is not an offsetMsgId.
    """
    raw = _id_bytes(text, "an offsetMsgId")
    port, physical_offset = unpack(">iq", raw[-12:])
    if not 0 <= port <= 65535 or physical_offset < 0:
        raise RemoteProtocolError(
            f"not an offsetMsgId: {text} (port {port}, physical offset {physical_offset})",
            "it may be a uniqKey: look it up with its topic",
        )
    return decode_ip(raw[:-12]), port, physical_offset


class UniqKeyParts(NamedTuple):
    """The parts of a uniqKey; ``time_diff_ms`` counts from the 1st of the producer's month."""

    ip: str
    pid: int
    loader_hash: int
    time_diff_ms: int
    counter: int


def compose_uniq_key(ip: str, pid: int, loader_hash: int, time_diff_ms: int, counter: int) -> str:
    """Compose a uniqKey; pid and counter are cut to 16 bits, the other numbers to 32.

    ``time_diff_ms`` is the time since 00:00 of the 1st of the month, producer's local time.
    Raises LocalProtocolError if ``ip`` is not an IP address.
    """
    tail = pack(
        ">HIIH",
        pid & 0xFFFF,
        loader_hash & 0xFFFFFFFF,
        time_diff_ms & 0xFFFFFFFF,
        counter & 0xFFFF,
    )
    return (encode_ip(ip) + tail).hex().upper()


def parse_uniq_key(text: str) -> UniqKeyParts:
    """Split a uniqKey (either case); RemoteProtocolError without 32 or 56 hex digits.

    Producers in other languages may compose it differently: the parts are not reliable.
    """
    raw = _id_bytes(text, "a uniqKey")
    pid, loader_hash, time_diff_ms, counter = unpack(">HIIH", raw[-12:])
    return UniqKeyParts(decode_ip(raw[:-12]), pid, loader_hash, time_diff_ms, counter)
