"""Frames of sends, ordinary and unusual, for the tests of ingest."""

import random
from collections.abc import Mapping

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
    """A send that the plain path has to serve; ``malformed``: for a reason in the frame itself."""
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
        *([] if malformed else [{"e": "77"}, {"b": "Unknown"}, {"b": "%RETRY%G1"}]),
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
