"""Our commands with a Java name print the lines of the Java tool about the same Java cluster."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.interop.test_our_cli_on_java import MQADMIN


class Shop(NamedTuple):
    """A Java cluster with a topic of one queue, its messages, and the connected group ``till``."""

    namesrv: str
    broker: str
    sent: list[dict[str, Any]]


@pytest.fixture(scope="module")
def shop(
    java_cluster: tuple[str, str], peer_533: Any, make_topic: Callable[..., None]
) -> Iterator[Shop]:
    namesrv, broker = java_cluster
    make_topic(broker, "JOrders", 1)
    words = {"namesrv": namesrv, "topic": "JOrders", "group": "till"}
    sent = peer_533.produce(**words, count=4, tags="A,B", keys="order{i}", queue=0, first=0)
    peer_533.mqadmin("updateSubGroup", "-n", namesrv, "-b", broker, "-g", "till")
    peer_533.ask("consume", consumer="till", **words)
    peer_533.messages("till", 4)
    peer_533.ask("stop", consumer="till")  # stopping commits at once
    peer_533.ask("consume", consumer="till", **words)
    shop = Shop(namesrv, broker, sent)
    deadline = time.monotonic() + 60
    while not is_assigned(shop):
        assert time.monotonic() < deadline, "the queue of JOrders has no owner"
    yield shop
    peer_533.ask("stop", consumer="till")


def is_assigned(shop: Shop) -> bool:
    """Whether the client of ``till`` has the queue, and everything is committed."""
    words = ["consumer", "lag", "till", "--topic", "JOrders", "--clients", "-o", "json"]
    items = json.loads(ours(shop, words))["items"]
    return bool(items) and all(item["clientId"] and item["lag"] == 0 for item in items)


def ours(shop: Shop, words: list[str]) -> str:
    done = subprocess.run(
        [str(MQADMIN), *words, "-n", shop.namesrv, "--timeout", "60s"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# Volatile or deliberately different: the topic that Java's broker reports as a group, rates and
# totals, the file of a body, the reason of a track, the form of a map, the offsets that a Java
# consumer adds to properties, a dash in place of an unknown 0.
DROPPED = re.compile(r"Diff Total|Message Body Path|Consume TPS|consumerGroup=JOrders")
TRACK = re.compile(r"trackType=(\w+), exceptionDesc=.*")
MAP = re.compile(r"\{([^{}]*)\}")
PULLED = re.compile(r"^(MIN|MAX)_OFFSET=")


def lines(text: str) -> list[str]:
    """The lines of an output, sorted: the Java tool prints in the order of hashes."""
    found = []
    for line in text.replace("MessageTrack [", "\nMessageTrack [").splitlines():
        if not line.strip() or DROPPED.search(line) or line.startswith(("\t", "See https://")):
            continue
        line = TRACK.sub(r"trackType=\1", line).rstrip()
        line = MAP.sub(
            lambda match: ", ".join(
                sorted(part for part in match[1].split(", ") if not PULLED.match(part))
            ),
            line,
        )
        found.append(re.sub(r"(?<=\s)-(?=\s|$)", "0", line))
    return sorted(found)


READS = [
    "consumerProgress -g till -t JOrders",
    "consumerProgress -g till -t JOrders -s true",
    "consumerConnection -g till",
    "brokerConsumeStats -b $B",
    "getConsumerConfig -g till",
    "queryMsgById -t JOrders -i $ID",
    "queryMsgById -t JOrders -i $UNIQ",
    "queryMsgByKey -t JOrders -k order1",
    "queryMsgByUniqueKey -t JOrders -i $UNIQ",
    "queryMsgByOffset -t JOrders -b broker-a -i 0 -o 1",
    "printMsg -t JOrders",
    "printMsgByQueue -t JOrders -a broker-a -i 0 -p true -d true -f true",
]


@pytest.mark.parametrize("line", READS)
def test_queries_print_the_lines_of_java(shop: Shop, peer_533: Any, line: str) -> None:
    given = {"$B": shop.broker, "$ID": shop.sent[1]["offsetMsgId"], "$UNIQ": shop.sent[1]["msgId"]}
    words = [given.get(word, word) for word in line.split()]
    java = peer_533.mqadmin(*words, "-n", shop.namesrv)
    assert lines(ours(shop, words)) == lines(java)


CHANGES = [
    "updateSubGroup -b $B -g made",
    "deleteSubGroup -b $B -g made",
    "setConsumeMode -b $B -t JOrders -g popping -m POP",
    "resetOffsetByTime -g idle -t JOrders -s 1600000000000",
    "skipAccumulatedMessage -g idle -t JOrders",
    # Of a group whose offsets were reset the broker ignores commits until its next pull.
    "cloneGroupOffset -s till -d copy -t JOrders",
]


@pytest.mark.parametrize("line", CHANGES)
def test_changes_print_the_lines_of_java(
    shop: Shop, peer_533: Any, line: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # undo files
    for group in ("made", "idle", "copy"):
        peer_533.mqadmin("updateSubGroup", "-n", shop.namesrv, "-b", shop.broker, "-g", group)
    words = [shop.broker if word == "$B" else word for word in line.split()]
    our_lines = lines(ours(shop, words))
    peer_533.mqadmin("updateSubGroup", "-n", shop.namesrv, "-b", shop.broker, "-g", "made")
    assert our_lines == lines(peer_533.mqadmin(*words, "-n", shop.namesrv))
