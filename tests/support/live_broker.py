"""A broker in this process with delayed and popped messages, for tests of the online tools."""

import time
from collections.abc import Callable
from typing import Any

from broker.message.properties import encode_properties
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.server.standalone import BlockingEmbeddedBroker

SMALL = {
    "mappedFileSizeCommitLog": "1048576",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "recallMessageEnable": "true",
}


def call(
    broker: BlockingEmbeddedBroker, code: int, fields: dict[str, Any], body: bytes = b""
) -> RemotingCommand:
    """Send one request; AssertionError if it is refused."""
    with BlockingClient(timeout_ms=20_000) as client:
        ext = {name: str(value) for name, value in fields.items()}
        answer = client.call(broker.address, request(code, ext, body))
    assert answer.code == 0, answer.remark
    return answer


def send(
    broker: BlockingEmbeddedBroker, topic: str, key: str, **properties: object
) -> dict[str, str]:
    """Send a message with a key to queue 0; the fields of the response."""
    pairs = {"KEYS": key, "WAIT": "true", "UNIQ_KEY": key.upper().ljust(32, "0")}
    pairs |= {name: str(value) for name, value in properties.items()}
    names = zip("abcdefhjkm", ("P", topic, "TBW102", 1, 0, 0, 0, 0, "false", "false"), strict=True)
    fields = {name: str(value) for name, value in names}
    fields |= {"g": str(time.time_ns() // 1_000_000), "i": encode_properties(pairs).decode()}
    return dict(call(broker, RequestCode.SEND_MESSAGE_V2, fields, b"x").ext_fields)


def pop(broker: BlockingEmbeddedBroker, topic: str, group: str, count: int) -> dict[str, str]:
    """Pop messages from queue 0 for ten minutes; the fields of the response."""
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": 0,
        "maxMsgNums": count,
        "invisibleTime": 600_000,
        "pollTime": 0,
        "bornTime": time.time_ns() // 1_000_000,
        "initMode": 0,
        "order": "false",
    }
    return dict(call(broker, RequestCode.POP_MESSAGE, fields).ext_fields)


def until(condition: Callable[[], Any]) -> Any:
    """Poll until the condition holds; the time limit of the test bounds it."""
    while not (found := condition()):
        time.sleep(0.02)
    return found
