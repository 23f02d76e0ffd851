"""Frames of sends, ordinary and unusual, for the tests of ingest."""

import random
import struct
from collections.abc import Mapping, Sequence

from broker.message.batch import encode_batch
from broker.message.message import Message
from broker.message.properties import encode_properties
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import ROCKETMQ, RemotingCommand
from broker.remoting.protocol.framing import encode_frame

KEY = "AC11000100012A139A5518B4AAC2%04X"
LONG = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "m": "batch",
}


def sys_flag_of(number: int) -> str:
    """The sysFlag of a message: every fifth one has bits that no client sets, and the sign."""
    return "-256" if number % 5 == 4 else "0"


def properties_of(number: int) -> dict[str, str]:
    """The properties of a client; every second message has keys."""
    properties = {"UNIQ_KEY": KEY % number, "WAIT": "true", "TAGS": f"Tag{number % 3}"}
    if number % 2:
        properties["KEYS"] = f"order{number} k{number % 5}"
    return properties


def send_fields(number: int, topic: str = "Orders", queues: int = 4) -> dict[str, str]:
    """The ext fields of SEND_MESSAGE_V2 as a Java client fills them."""
    return {
        "a": "P1",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(number % queues),
        "f": "0",
        "g": str(1_700_000_000_000 + number),
        "h": str(number),
        "i": encode_properties(properties_of(number)).decode(),
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "broker-a",
    }


def send_frame(
    number: int,
    *,
    code: int = RequestCode.SEND_MESSAGE_V2,
    rocketmq: bool = False,
    body: bytes = b"",
    flag: int = 0,
    added: Mapping[str, str] | None = None,
    **fields: str,
) -> bytes:
    """An ordinary send; ``fields`` replace ext fields, ``added`` follow them unchanged."""
    ext = send_fields(number) | fields
    if code == RequestCode.SEND_MESSAGE:
        ext = {LONG[name]: value for name, value in ext.items() if name in LONG}
    ext |= added or {}
    command = RemotingCommand(
        code=code,
        opaque=number,
        version=479,
        flag=flag,
        ext_fields=ext,
        body=body or b"body %d " % number * (1 + number % 50),
        serialize_type=ROCKETMQ if rocketmq else "JSON",
    )
    return encode_frame(command)


def unusual_frame(rng: random.Random, number: int, *, malformed: bool = False) -> bytes:
    """A send that is rare, or one that the plain path has to serve.

    ``malformed``: one of the latter, for a reason in the frame itself.
    """
    raw = send_fields(number)["i"]
    changes: list[dict[str, str]] = [
        {"i": raw + "DELAY\x012\x02"},
        {"i": raw.replace("WAIT\x01true", "WAIT\x01false")},
        {"i": "TAGS\x01only\x02"},
        {"i": raw + "MSG_REGION\x01elsewhere\x02"},
        {"i": raw + "city\x01Köln\x02"},
        {"i": raw + 'UNIQ_KEY\x01a "quoted" key\x02'},
        {"i": raw + "PGROUP\x01G\x02TRAN_MSG\x01true\x02", "f": "4"},
        {"e": "-1"},
        {"e": " 1"},
        {"g": "1_700_000_000_000", "h": "+5"},
        {"i": raw + "\x02x\x01y\x01z"},
        {"i": raw + "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02"},
        {"m": "TRUE"},
        *([] if malformed else [{"e": "77"}, {"b": "Unknown"}, {"b": "%RETRY%G1"}, {"f": "-256"}]),
    ]
    kind = rng.randrange(len(changes) + 2)
    if kind < len(changes):
        return send_frame(number, rocketmq=bool(number % 2), **changes[kind])
    if kind == len(changes):
        items = [Message("Orders", b"item %d" % n, properties=properties_of(n)) for n in range(3)]
        return send_frame(
            number,
            code=RequestCode.SEND_BATCH_MESSAGE,
            body=encode_batch(items),
            i="WAIT\x01true\x02",
            m="true",
        )
    return send_frame(number, flag=2)


def items_of(number: int, count: int, size: int = 0) -> list[Message]:
    """Messages of a batch as clients make them, with bodies of ``size`` bytes, 0: of any."""
    return [
        Message(
            "Orders",
            b"item %d" % n * (1 + n % 7) if not size else b"x" * size,
            properties=properties_of(number + n),
            flag=n - 2,
        )
        for n in range(count)
    ]


def batch_frame(
    number: int,
    items: Sequence[Message] | bytes = (),
    *,
    code: int = RequestCode.SEND_BATCH_MESSAGE,
    rocketmq: bool = False,
    **fields: str,
) -> bytes:
    """A batch as Java clients send it, by default of four messages; ``items``: or its body."""
    body = items if isinstance(items, bytes) else encode_batch(items or items_of(number, 4))
    raw = encode_properties({"UNIQ_KEY": KEY % number, "WAIT": "true"}).decode()
    changes = {"i": raw, "m": "true"} | fields
    return send_frame(number, code=code, rocketmq=rocketmq, body=body, **changes)


def raw_item(
    body: bytes = b"body",
    raw: bytes = b"UNIQ_KEY\x01K1\x02TAGS\x01A\x02",
    *,
    magic: int = 0,
    crc: int = 0,
    **sizes: int,
) -> bytes:
    """One message of a batch; ``size``, ``body_size`` and ``raw_size`` replace its lengths."""
    size = sizes.get("size", 22 + len(body) + len(raw))
    body_size, raw_size = sizes.get("body_size", len(body)), sizes.get("raw_size", len(raw))
    head = struct.pack(">iIIii", size, magic, crc, 7, body_size)
    return head + body + struct.pack(">H", raw_size & 0xFFFF) + raw


SIZES = (-(2**31), -1, 0, 1, 21, 22, 23, 47, 65_536, 2**31 - 1)


def hostile_items() -> list[bytes]:
    """Messages of a batch that are not ordinary; most are malformed."""
    key = b"UNIQ_KEY\x01K2\x02"
    return [
        *(raw_item(**{name: size}) for name in ("size", "body_size") for size in SIZES),
        *(raw_item(raw_size=size) for size in (0, 1, 18, 20, 32_767, 32_768, 65_535)),
        raw_item()[:-1],
        raw_item() + b"\0",
        raw_item()[:21],
        raw_item(magic=1),
        raw_item(crc=0x80000000),
        raw_item(raw=b""),
        raw_item(raw=b"TAGS\x01A\x02"),
        raw_item(raw=b"UNIQ_KEY\x01\x02"),
        raw_item(raw=key + b"DELAY\x013\x02"),
        raw_item(raw=key + b"PGROUP\x01G\x02TRAN_MSG\x01true\x02"),
        raw_item(raw=key + b"TIMER_DELAY_MS\x015000\x02"),
        raw_item(raw=key + b"WAIT\x01false\x02"),
        raw_item(raw=key + b"MSG_REGION\x01elsewhere\x02"),
        raw_item(raw=key + b"INNER_NUM\x012\x02"),
        raw_item(raw=key + b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02"),
        raw_item(raw=key + "city\x01Köln\x02".encode()),
        raw_item(raw=key + b"city\x01\xff\xfe\x02"),
        raw_item(raw=key + b"\x02x\x01y\x01z"),
        raw_item(raw=key + key),
        raw_item(raw=key + b"TAGS\x01A\x02TAGS\x01B\x02"),
        raw_item(raw=key + b"k\x01" + b"v" * 32_750),
    ]


def hostile_batches() -> list[dict[str, str]]:
    """Header fields of batches that are not ordinary."""
    raw = f"UNIQ_KEY\x01{KEY % 1}\x02"
    return [
        {"i": raw + "WAIT\x01false\x02"},
        {"i": "WAIT\x01true\x02"},
        {"i": ""},
        {"i": raw + "TAGS\x01all\x02"},
        {"i": raw + "shared\x01by all\x02"},
        {"i": raw + "XWAIT\x01true\x02"},
        {"i": raw + "XUNIQ_KEY\x01true\x02"},
        {"i": raw + "DELAY\x012\x02"},
        {"i": raw + "TIMER_DELAY_SEC\x019\x02"},
        {"i": raw + "TRAN_MSG\x01true\x02", "f": "4"},
        {"f": "128"},
        {"e": "-1"},
        {"e": " 1"},
        {"h": "x"},
        {"i": 'UNIQ_KEY\x01a "quoted" key\x02'},
    ]


def hostile_batch(rng: random.Random, number: int) -> bytes:
    """A batch that is not ordinary, or whose bytes were changed."""
    kind = rng.randrange(4)
    rocketmq = bool(number % 2)
    if kind == 0:
        return batch_frame(number, rocketmq=rocketmq, **rng.choice(hostile_batches()))
    if kind == 1:
        return batch_frame(number, rng.choice((b"\0", b"", b"no batch")), rocketmq=rocketmq)
    items = [encode_batch(items_of(number, rng.randrange(3))), rng.choice(hostile_items())]
    rng.shuffle(items)
    data = bytearray(b"".join(items))
    if kind == 3:
        data = bytearray(encode_batch(items_of(number, 3)))
        data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 127, 128, 255))
    return batch_frame(number, bytes(data), rocketmq=rocketmq)
