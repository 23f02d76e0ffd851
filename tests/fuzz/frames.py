"""Frames for a fuzzer: built from the RPC table, hostile, broken, recorded and then damaged.

``FrameSource.next()`` gives a :class:`Sample`: the same ones for the same seed. Left out are only
requests that an administrator on loopback may send and a healthy server obeys: changing its
settings, wiping permissions, deleting topics.
"""

import gzip
import json
import random
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from broker.errors import LocalProtocolError
from broker.message.batch import encode_batch_item
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import JSON, ROCKETMQ, request
from broker.remoting.protocol.rpc import RPC
from broker.remoting.protocol.serialize import encode_header
from tests.fuzz.hostile_json import bomb_members, hostile_object, hostile_value
from tests.support.mutated_header import mutated

GOLDEN = Path(__file__).parent.parent / "golden" / "frames"

OBEYED = frozenset(
    (
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.ADD_WRITE_PERM_OF_BROKER,
        # Units in light queues outlive the topic, and `mqadmin store verify` reports errors.
        RequestCode.DELETE_TOPIC_IN_BROKER,
    )
)
SENDS = frozenset(
    (
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    )
)
# Transaction bits are stored as they are sent: PREPARED (4) and ROLLBACK (12) get no unit.
SEND_FLAGS = (0, 0, 1, 2, 4, 8, 12, 16, 32, 64, 1 << 20, -256, -1)
UNKNOWN_CODES = (-1, 0, 1, 9, 99, 20_000, 32_767, 2**31 - 1, -(2**31))
# Few names, so that a long run fills no disk with queues.
TOPICS = tuple(f"Fuzz{n}" for n in range(12))
LONG_TOPIC = "WellBehavedLong"  # only pulled from, by hostile peers too
GROUPS = tuple(f"FuzzGroup{n}" for n in range(12))
ODD_NAMES = (
    "",
    "%RETRY%FuzzGroup1",
    "%DLQ%FuzzGroup1",
    "%LMQ%fuzz",
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "TBW102",
    "../../etc/passwd",
    "a/b",
    "a\0b",
    "T" * 127,
    "T" * 128,
    "T" * 255,
    "T" * 40_000,
    "\u202eT",
    "*",
    "a@b",
    "\x1b[31m",
)
LONG_HEADERS = 0.01  # share of requests with headers of more than 64 KiB, some above the limits
NUMBERS = (0, 1, -1, 7, 32, 65_536, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**64, 10**40)
PROPERTIES = (
    "",
    "\x01",
    "\x02",
    "\x01\x02" * 3_000,
    "KEYS\x01a b c\x02",
    "KEYS\x01" + " ".join(f"k{n}" for n in range(500)) + "\x02",
    "WAIT\x01false\x02",
    "NOWAIT\x01false\x02",
    "DELAY\x011\x02",
    "DELAY\x01" + "9" * 4_300 + "\x02",
    "DELAY\x01-1\x02",
    "DELAY\x01\u0663\x02",
    "REAL_QID\x01x\x02REAL_TOPIC\x01Fuzz1\x02DELAY\x011\x02",
    "INNER_MULTI_DISPATCH\x01" + ",".join(f"%LMQ%q{n}" for n in range(30)) + "\x02",
    "INNER_MULTI_DISPATCH\x01" + "L" * 300 + "\x02",
    "INNER_MULTI_DISPATCH\x01,,,\x02INNER_MULTI_QUEUE_OFFSET\x01x\x02",
    "UNIQ_KEY\x01U\x02UNIQ_KEY\x01V\x02",
    "TRAN_MSG\x01true\x02",
    "TIMER_DELAY_MS\x01999999999999999\x02",
    "POP_CK\x01 \x02",
    "CLUSTER\x01x\x02MSG_REGION\x01\x02TRACE_ON\x01\x02",
    "TAGS\x01" + "t" * 30_000 + "\x02",
    "a\x01b\x02" * 8_000,
    "no separators at all",
)


class Sample(NamedTuple):
    """Bytes to send, with a description."""

    kind: str
    code: int
    data: bytes


class FrameSource:
    """Samples for one role's port, drawn from ``rng``."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._codes = sorted(set(RPC) - OBEYED)
        self._kinds: tuple[tuple[int, Callable[[], Sample]], ...] = (
            (30, self._typed),
            (12, self._hostile_header),
            (6, self._binary_header),
            (10, self._direct),
            (4, self._long_pulls),
            (8, self._batch),
            (12, self._json_body),
            (8, self._properties),
            (14, self._recorded),
            (6, self._broken),
            (4, self._garbage),
        )
        self._weights = [weight for weight, _ in self._kinds]

    def next(self) -> Sample:
        """The next sample."""
        ((_, make),) = self._rng.choices(self._kinds, self._weights)
        return make()

    # ---- well-formed frames

    def _code(self) -> int:
        rng = self._rng
        return rng.choice(UNKNOWN_CODES) if rng.random() < 0.05 else rng.choice(self._codes)

    def _typed(self) -> Sample:
        """A request whose fields are those of its header, with values good and bad."""
        code = self._code()
        return self._framed("typed", code, self._fields(code), self._body(code))

    def _direct(self) -> Sample:
        """A read in the form that is served without a command object, intact or changed."""
        rng = self._rng
        topic, last = rng.choice((LONG_TOPIC, rng.choice(TOPICS))), str(2**63 - 1)
        code, fields = rng.choice(
            (
                (
                    RequestCode.PULL_MESSAGE,
                    {
                        "consumerGroup": rng.choice(GROUPS),
                        "topic": topic,
                        "queueId": str(rng.randrange(4)),
                        "queueOffset": str(rng.randrange(20)),
                        "maxMsgNums": str(rng.choice((1, 32, 1_000))),
                        "sysFlag": str(rng.choice((0, 2, 4, 5, 6))),
                        "commitOffset": str(rng.randrange(20)),
                        "suspendTimeoutMillis": "100",
                        "subscription": rng.choice(("*", "a || b")),
                        "subVersion": "0",
                        "expressionType": "TAG",
                    },
                ),
                (
                    RequestCode.QUERY_MESSAGE,
                    {
                        "topic": topic,
                        "key": rng.choice("abc"),
                        "maxNum": str(rng.choice((1, 64, 5_000))),
                        "beginTimestamp": "0",
                        "endTimestamp": last,
                        "_UNIQUE_KEY_QUERY": rng.choice(("true", "false")),
                    },
                ),
                (RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(rng.randrange(5_000))}),
            )
        )
        header = encode_header(request(code, fields))
        if rng.random() < 0.6:
            header = mutated(rng, header, (*fields, "lo", "nsd", "oway", "bname", "unknown"))
        return Sample("direct", code, _frame(0, header, b""))

    def _long_pulls(self) -> Sample:
        """Pulls of long responses: of a peer that does not read, the socket takes only some."""
        rng = self._rng
        fields = {
            "consumerGroup": rng.choice(GROUPS),
            "topic": LONG_TOPIC,
            "queueId": str(rng.randrange(4)),
            "queueOffset": str(rng.randrange(20)),
            "maxMsgNums": "32",
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "100",
            "subscription": "*",
            "subVersion": "0",
        }
        frame = _frame(0, encode_header(request(RequestCode.PULL_MESSAGE, fields)), b"")
        return Sample("long pulls", RequestCode.PULL_MESSAGE, frame * rng.choice((1, 5, 60)))

    def _framed(self, kind: str, code: int, fields: dict[str, str], body: bytes) -> Sample:
        rng = self._rng
        command = request(code, fields, body, oneway=rng.random() < 0.05)
        command.version = rng.choice((0, 1, 317, 435, 479, -1))
        command.language = rng.choice(("JAVA", "GO", "CPP", "PYTHON"))
        command.serialize_type = ROCKETMQ if rng.random() < 0.25 else JSON
        try:
            header = encode_header(command)
        except (LocalProtocolError, struct.error, UnicodeEncodeError, OverflowError):
            # Values without a binary form are encoded as JSON.
            command.serialize_type = JSON
            header = encode_header(command)
        # Not encode_frame: it refuses frames that are too long.
        return Sample(kind, code, _frame(int(command.serialize_type == ROCKETMQ), header, body))

    def _fields(self, code: int) -> dict[str, str]:
        rng = self._rng
        fields = {}
        for name, kind in _header_fields(code):
            if rng.random() < 0.03:
                continue
            fields[name] = self._value(name, kind)
        if code in SENDS:
            fields["f" if "b" in fields else "sysFlag"] = str(rng.choice(SEND_FLAGS))
        for _ in range(rng.choice((0, 0, 0, 1, 40))):
            fields[f"extra{rng.randrange(1000)}"] = rng.choice(("", "x", "y" * 1_000))
        if rng.random() < LONG_HEADERS:
            fields["long"] = "z" * rng.choice((70_000, 250_000, 300_000))
            fields.update(dict.fromkeys(map(str, range(rng.choice((0, 9_000, 12_000)))), ""))
        return fields

    def _value(self, name: str, kind: str) -> str:
        rng = self._rng
        if rng.random() < 0.04:
            return rng.choice(("", "x" * 60_000, "NaN", "\0", "true", "{}", hostile_value(rng)))
        lowered = name.lower()
        if "topic" in lowered or name == "b":
            return rng.choice(TOPICS if rng.random() < 0.85 else ODD_NAMES)
        if "group" in lowered or name == "a":
            return rng.choice(GROUPS if rng.random() < 0.85 else ODD_NAMES)
        if "properties" in lowered or name == "i":
            return rng.choice(PROPERTIES)
        if "expression" in lowered or "subscription" in lowered:
            return rng.choice(("*", "a || b", "a>1 AND " * 500 + "b", "(" * 3_000, "TAG " * 9_000))
        if "bool" in kind:
            return rng.choice(("true", "false", "maybe"))
        if "int" in kind.lower():
            return str(rng.choice((0, 0, 1, 3, 32)) if rng.random() < 0.8 else rng.choice(NUMBERS))
        if "suspend" in lowered or "timeout" in lowered:
            return str(rng.choice((0, 100, 15_000)))
        return rng.choice(("", "a", "127.0.0.1:10911", "Fuzz", "DefaultCluster", "x" * 200))

    def _body(self, code: int) -> bytes:
        rng = self._rng
        rpc = RPC.get(code)
        if rpc is None or not rpc.request_body:
            return b"" if rng.random() < 0.8 else rng.randbytes(rng.choice((1, 100, 70_000)))
        if rpc.request_body == "batch":
            return self._batch_body()
        if rpc.request_body_type is None:
            return rng.randbytes(rng.choice((0, 1, 100, 5_000)))
        return self._typed_body(rpc.request_body_type)

    def _typed_body(self, kind: type) -> bytes:
        """JSON for a body class: good values, or hostile ones under its names."""
        rng = self._rng
        names = _wire_names(kind)
        if rng.random() < 0.5 or not names:
            return hostile_object(rng, names or ("a", "b")).encode("utf-8", "surrogatepass")
        values = {name: self._json_value(name) for name in names}
        return json.dumps(values).encode()

    def _json_value(self, name: str) -> Any:
        rng = self._rng
        lowered = name.lower()
        if "set" in lowered or "list" in lowered or "table" in lowered:
            return [self._json_item() for _ in range(rng.choice((0, 1, 3, 300)))]
        if "topic" in lowered:
            return rng.choice(TOPICS)
        if "group" in lowered:
            return rng.choice(GROUPS)
        return rng.choice((0, 1, -1, "", "c1", None, True, {}, []))

    def _json_item(self) -> Any:
        """An item that fits many lists: a consumer, a producer, a queue, a topic."""
        rng = self._rng
        group, topic = rng.choice(GROUPS), rng.choice(TOPICS)
        return {
            "groupName": group,
            "topicName": topic,
            "topic": topic,
            "brokerName": "broker-a",
            "queueId": rng.choice((0, 1, -1, 10**9)),
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "readQueueNums": rng.choice((1, 4, -1)),
            "writeQueueNums": rng.choice((1, 4, -1)),
            "perm": rng.choice((6, 99)),
            "subscriptionDataSet": [
                {
                    "topic": topic,
                    "subString": rng.choice(("*", "a||b", "x" * 5_000)),
                    "tagsSet": ["a"] * rng.choice((0, 1, 500)),
                    "codeSet": [1, 2],
                    "subVersion": 1,
                    "expressionType": rng.choice(("TAG", "SQL92", "?")),
                }
            ],
        }

    # ---- hostile parts

    def _hostile_header(self) -> Sample:
        """A JSON header that no client writes."""
        rng = self._rng
        code = self._code()
        ext = rng.choice(
            (
                lambda: hostile_value(rng),
                lambda: hostile_object(rng, tuple(name for name, _ in _header_fields(code))),
                lambda: '{1:1,"1":"a"}',
                lambda: json.dumps(self._fields(code)),
            )
        )()
        parts = [f'"code":{code}', f'"extFields":{ext}', '"flag":0', '"language":"JAVA"']
        parts += [f'"opaque":{rng.randrange(1 << 31)}', '"version":479']
        if rng.random() < 0.4:
            name = rng.choice(("code", "flag", "opaque", "version", "language", "remark", "z"))
            parts.append(f'"{name}":{hostile_value(rng)}')
        if rng.random() < 0.2:
            # No text as ext value: only the tolerant reader, which knows $ref, takes it.
            ext = rng.choice(('{"topic":1}', f'{{"topic":{{"$ref":"$.a{rng.randrange(20)}"}}}}'))
            parts = [f'"code":{code}', f'"extFields":{ext}', bomb_members(rng)]
        rng.shuffle(parts)
        text = "{" + ",".join(parts) + "}"
        if rng.random() < 0.02:
            text += " " * 2_000_000
        return Sample("header", code, _frame(0, text.encode("utf-8", "surrogatepass"), b""))

    def _binary_header(self) -> Sample:
        """A ROCKETMQ header whose lengths are wrong in places."""
        rng = self._rng
        code = self._code()
        lengths = (0, 1, 5, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)
        entries = b""
        for name, kind in _header_fields(code):
            key = name.encode()
            value = self._value(name, kind).encode("utf-8", "replace")
            key_length = rng.choice(lengths) & 0xFFFF if rng.random() < 0.1 else len(key) & 0xFFFF
            value_length = rng.choice(lengths) if rng.random() < 0.1 else len(value)
            entries += struct.pack(">H", key_length) + key
            entries += struct.pack(">I", value_length & 0xFFFFFFFF) + value
        ext_length = rng.choice(lengths) if rng.random() < 0.2 else len(entries)
        remark_length = rng.choice(lengths) if rng.random() < 0.1 else 0
        head = struct.pack(
            ">HBHiiI", code & 0xFFFF, 0, 479, rng.randrange(1 << 31), 0, remark_length
        )
        header = head + struct.pack(">I", ext_length) + entries
        return Sample("binary header", code, _frame(1, header, self._body(code)))

    def _batch(self) -> Sample:
        """A batch send: header properties, many items, items of wrong length."""
        rng = self._rng
        fields = self._send_fields()
        fields["m"] = "true"
        fields["i"] = rng.choice(PROPERTIES) + rng.choice(("", "H" * 20_000))
        body = self._batch_body()
        return self._framed("batch", RequestCode.SEND_BATCH_MESSAGE, fields, body)

    def _batch_body(self) -> bytes:
        rng = self._rng
        count = rng.choice((0, 1, 3, 64, 2_000, 20_000))
        properties = rng.choice(PROPERTIES).encode()[:30_000] if count < 100 else b""
        item = encode_batch_item(0, rng.randbytes(rng.choice((0, 10, 1_000))), properties)
        if count >= 2_000:
            item = encode_batch_item(0, b"", b"")
        body = bytearray(item * count)
        if body and rng.random() < 0.3:
            struct.pack_into(">i", body, 0, rng.choice((0, -1, 21, 2**31 - 1)))
        return bytes(body)

    def _send_fields(self) -> dict[str, str]:
        rng = self._rng
        return {
            "a": "fuzz",
            "b": rng.choice(TOPICS),
            "c": "TBW102",
            "d": "4",
            "e": str(rng.choice((0, 1, -1, 3, 99))),
            "f": str(rng.choice(SEND_FLAGS)),
            "g": str(rng.choice((0, 1_700_000_000_000, 2**63 - 1))),
            "h": str(rng.choice((0, 2**31 - 1))),
            "i": "",
            "j": "0",
            "k": "false",
            "m": "false",
        }

    def _json_body(self) -> Sample:
        """A request with a JSON body, and one that its server will not like."""
        rng = self._rng
        codes = [code for code in self._codes if RPC[code].request_body_type is not None]
        code = rng.choice(codes)
        body = self._typed_body(RPC[code].request_body_type)
        return self._framed("body", code, self._fields(code), body)

    def _properties(self) -> Sample:
        """A send whose properties have odd names, values and separators."""
        rng = self._rng
        fields = self._send_fields()
        fields["i"] = "".join(rng.choices(PROPERTIES, k=rng.randrange(1, 4)))[:60_000]
        body = rng.randbytes(rng.choice((0, 1, 200, 40_000)))
        return self._framed("properties", RequestCode.SEND_MESSAGE_V2, fields, body)

    # ---- broken frames

    def _recorded(self) -> Sample:
        """A frame of a real client, whole or damaged."""
        rng = self._rng
        code, data = rng.choice(_recorded())
        changed = bytearray(data)
        for _ in range(rng.choice((0, 1, 1, 3, 20))):
            place = rng.randrange(len(changed))
            change = rng.randrange(4)
            if change == 0:
                changed[place] ^= 1 << rng.randrange(8)
            elif change == 1:
                changed[place : place + rng.randrange(1, 9)] = b""
            elif change == 2:
                changed[place:place] = rng.randbytes(rng.randrange(1, 9))
            else:
                changed[place : place + 4] = rng.randbytes(4)
            if not changed:
                changed += b"\0"
        if rng.random() < 0.8:  # the length fits again, so that the content is read
            changed[:4] = struct.pack(">I", max(0, len(changed) - 4))
        return Sample("recorded", code, bytes(changed))

    def _broken(self) -> Sample:
        """A frame cut short, or with lengths that do not fit."""
        rng = self._rng
        sample = self.next()
        data = bytearray(sample.data)
        if rng.random() < 0.5 or len(data) < 8:
            return Sample("cut", sample.code, bytes(data[: rng.randrange(len(data) + 1)]))
        lengths = (0, 3, 4, len(data), 16 << 20, (16 << 20) + 1, 0x7FFFFFFF, 0xFFFFFFFF)
        struct.pack_into(">I", data, rng.choice((0, 4)), rng.choice(lengths))
        return Sample("length", sample.code, bytes(data))

    def _garbage(self) -> Sample:
        rng = self._rng
        data = rng.choice(
            (
                b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
                b"\0" * 64,
                b"\xff" * 64,
                rng.randbytes(rng.choice((1, 8, 5_000))),
            )
        )
        return Sample("garbage", -1, data)


def _frame(kind: int, header: bytes, body: bytes) -> bytes:
    word = kind << 24 | len(header) & 0xFFFFFF
    return struct.pack(">II", 4 + len(header) + len(body), word) + header + body


@cache
def _header_fields(code: int) -> tuple[tuple[str, str], ...]:
    """(name on the wire, type) of the fields of a code's request header."""
    rpc = RPC.get(code)
    if rpc is None or rpc.request_header_type is None:
        return ()
    fields = msgspec.structs.fields(rpc.request_header_type)
    return tuple((field.encode_name, str(field.type)) for field in fields)


@cache
def _wire_names(kind: type) -> tuple[str, ...]:
    """The names of a body class on the wire."""
    try:
        return tuple(field.encode_name for field in msgspec.structs.fields(kind))
    except TypeError:
        return ()


@cache
def _recorded() -> tuple[tuple[int, bytes], ...]:
    """Every request that real clients sent, by code and bytes."""
    found = {}
    for path in sorted(GOLDEN.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                frame = json.loads(line)
                if not frame["flag"] & 1 and frame["code"] not in OBEYED:
                    found[frame["hex"]] = frame["code"]
    return tuple((code, bytes.fromhex(text)) for text, code in found.items())
