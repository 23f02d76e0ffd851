"""Commands with a Java name print the same as the Java tool about the same Java cluster."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import MAGIC_V1, body_crc, encode_record
from tests.interop.conftest import until

MQADMIN = Path(sys.executable).parent / "mqadmin"

# Values that differ from one call to the next: rates, times, counts of running operations.
VOLATILE = [
    (r"\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d+", "<time>"),
    (r"\d+\.\d\d\(\d+,\d+ms(\|\d+,\d+ms)?\)", "<rate>"),
    (r"(?<=0, 0\.0\)) +\d+ +\d+\.\d\d +\d\.\d{4} +", " <pages hours ratio> "),
    (r"\b\d+-\d+(?=\(\d+\.\dw, )", "<timer lag>"),  # seconds and messages that timers are behind
    (r"\b1[6-9]\d{11}\b", "<ms>"),
    (r"(OK, )\d+", r"\1<count>"),
    (r"(Topic Put TPS: )\d+\.\d", r"\1<rate>"),
    (r"Side(Java|Ours)", "<side>"),
    (r" +\d+\.\d\d +\d+\.\d\d(?= )| +\d+\.\d\d(?= )", " <rates>"),
]

#: Lines whose order or blanks differ on purpose: sorted by us, in hash order or misaligned in Java.
UNORDERED = ("topicList", "getBrokerConfig", "getNamesrvConfig", "statsAll", "producer", "getCold")

STORIES = {
    "clusters": ["clusterList", "clusterList -m"],
    "topics": [
        *("topicList", "topicList -c", "topicClusterList -t Orders", "topicRoute -t Orders"),
        *("topicRoute -t Orders -l", "topicStatus -t Orders", "queryCq -t Orders -q 0 -i 0 -c 2"),
    ],
    "changes of topics": [
        "updateTopic -c DefaultCluster -t $S -r 4 -w 4",
        "updateTopic -b $B -t $S -r 4 -w 4 -p 6",
        "updateTopic -b $B -t $SFifo -a +message.type=FIFO",
        "updateTopicPerm -b $B -t $S -p 4",
        "topicRoute -t $S -l",
        "updateOrderConf -t $S -m put -v broker-a:4",
        "updateOrderConf -t $S -m get",
        "updateOrderConf -t $S -m delete",
        "deleteTopic -c DefaultCluster -t $S",
    ],
    "brokers": [
        *("getBrokerConfig -b $B", "getBrokerConfig -c DefaultCluster", "haStatus -b $B"),
        "updateBrokerConfig -b $B -k maxErrorRateOfBloomFilter -v 20",
        "updateBrokerConfig -c DefaultCluster -k maxErrorRateOfBloomFilter -v 20",
        *("cleanExpiredCQ -b $B", "cleanUnusedTopic -b $B", "deleteExpiredCommitLog -b $B"),
        "setCommitLogReadAheadMode -b $B -m 0",
        "resetMasterFlushOffset -b $B -o 0",
    ],
    "cold data": [
        "updateColdDataFlowCtrGroupConfig -b $B -g cold -v 100",
        "getColdDataFlowCtrInfo -b $B",
        "removeColdDataFlowCtrGroupConfig -b $B -g cold",
    ],
    "name server": [
        "getNamesrvConfig",
        "updateNamesrvConfig -k scanNotActiveBrokerInterval -v 6000",
        "updateKvConfig -s ADM -k colour -v blue",
        "deleteKvConfig -s ADM -k colour",
        "wipeWritePerm -b broker-a",
        "addWritePerm -b broker-a",
    ],
    "statistics": ["statsAll -t Orders", "producer -b $B"],
}

#: Failures: the Java tool prints a stack trace and exits with 0, ours names the error.
FAILURES = {
    "topicRoute -t NoSuch": 1,
    "topicStatus -t NoSuch": 1,
    "getBrokerEpoch -b broker-a": 4,
    "getControllerMetaData -a $B": 4,
    "addBroker -c $B -b /x": 4,
    "updateBrokerConfig -b $B -k configBlackList -v x": 4,
}


class Peers:
    """Both tools about one Java cluster."""

    def __init__(self, peer: Any, namesrv: str, broker: str) -> None:
        self.peer = peer
        self.namesrv = namesrv
        self.broker = broker

    def words(self, line: str, side: str) -> list[str]:
        name, *rest = line.replace("$B", self.broker).replace("$S", f"Side{side}").split()
        return [name, "-n", self.namesrv, *rest]

    def java(self, line: str) -> str:
        end = self.peer.ask("mqadmin", args=self.words(line, "Java"))[-1]
        return str(end["stdout"])

    def complete(self, line: str) -> str:
        """The output of the Java tool, which leaves columns out if a broker answers late."""
        if not line.startswith("clusterList"):
            return self.java(line)
        return str(until(lambda: text if "(,ms" not in (text := self.java(line)) else "", line))

    def ours(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(MQADMIN), *self.words(line, "Ours"), "--timeout", "60s"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )

    def both(self, line: str) -> tuple[str, subprocess.CompletedProcess[str]]:
        """The output of the Java tool, and of ours."""
        if not line.startswith("statsAll"):
            return self.complete(line), self.ours(line)

        def while_equal() -> tuple[str, subprocess.CompletedProcess[str]] | None:
            # The broker counts messages when it takes its next sample, and the sum of 24 hours is
            # then that of a minute, an hour or a day: compare while there is no new sample.
            before, done, after = self.java(line), self.ours(line), self.java(line)
            return (before, done) if masked(before, line) == masked(after, line) else None

        return until(while_equal, line)


@pytest.fixture(scope="module")
def peers(java_cluster: tuple[str, str], peer_533: Any, make_topic: Callable[..., None]) -> Peers:
    """A Java cluster with a topic of four messages and a connected producer."""
    namesrv, broker = java_cluster
    make_topic(broker, "Orders")
    for queue_id in range(2):
        peer_533.produce(
            namesrv=namesrv, topic="Orders", group="shop", queue=queue_id, count=2, tags="A"
        )
    return Peers(peer_533, namesrv, broker)


def masked(text: str, line: str) -> list[str]:
    """The lines without volatile values; sorted and with single blanks where Java has no order."""
    for pattern, instead in VOLATILE:
        text = re.sub(pattern, instead, text)
    rows = [row.rstrip() for row in text.splitlines()]
    if line.startswith(UNORDERED):
        return sorted({re.sub(r"[ ,{}]+", " ", row).strip() for row in rows} - {""})
    while rows and not rows[-1]:
        rows.pop()
    return rows


@pytest.mark.parametrize("story", STORIES)
def test_both_tools_print_the_same(peers: Peers, story: str) -> None:
    different: list[str] = []
    for line in STORIES[story]:
        printed, done = peers.both(line)
        java, ours = masked(printed, line), masked(done.stdout, line)
        if done.returncode != 0 or ours != java:
            different.append(f"{line}: {done.stderr}\n--- java\n{java}\n--- ours\n{ours}")
    assert not different, "\n".join(different)


#: Parts that the tool of 5.3.3 prints and that of 4.9.8 does not; ours prints those of 5.3.3.
SINCE_5 = [r",\s*\"enableActingMaster\":false", r", attributes={}", r"\s*Topic Put TPS: [\d.]+"]

#: Lines that the tool of 4.9.8 has, too.
STORIES_498 = [
    *("clusterList -m", "topicList", "topicList -c", "topicClusterList -t Orders"),
    *("topicRoute -t Orders", "topicStatus -t Orders", "queryCq -t Orders -q 0 -i 0 -c 2"),
    "updateTopic -c DefaultCluster -t $S -r 4 -w 4",
    "updateTopic -b $B -t $S -r 4 -w 4 -p 6",
    "updateTopicPerm -b $B -t $S -p 4",
    "updateOrderConf -t $S -m put -v broker-a:4",
    "updateOrderConf -t $S -m get",
    "updateOrderConf -t $S -m delete",
    "deleteTopic -c DefaultCluster -t $S",
    "getBrokerConfig -b $B",
    "updateBrokerConfig -b $B -k maxErrorRateOfBloomFilter -v 20",
    *("cleanExpiredCQ -b $B", "cleanUnusedTopic -b $B", "deleteExpiredCommitLog -b $B"),
    "getNamesrvConfig",
    "updateNamesrvConfig -k scanNotActiveBrokerInterval -v 6000",
    "updateKvConfig -s ADM -k colour -v blue",
    "deleteKvConfig -s ADM -k colour",
    "wipeWritePerm -b broker-a",
    "addWritePerm -b broker-a",
    *("statsAll -t Orders", "producer -b $B"),
]


def test_the_tool_of_4_9_8_prints_the_same(peers: Peers, peer_498: Any) -> None:
    older = Peers(peer_498, peers.namesrv, peers.broker)
    different: list[str] = []
    for line in STORIES_498:
        printed, done = older.both(line)
        java = masked(printed, line)
        text = done.stdout
        for pattern in SINCE_5:
            text = re.sub(pattern, "", text)
        ours = masked(text, line)
        if done.returncode != 0 or ours != java:
            different.append(f"{line}: {done.stderr}\n--- java\n{java}\n--- ours\n{ours}")
    assert not different, "\n".join(different)


EXPORTS = {
    "exportConfigs -c DefaultCluster": "configs.json",
    "exportMetrics -c DefaultCluster": "metrics.json",
    "exportMetadata -c DefaultCluster": "metadata.json",
    "exportMetadata -c DefaultCluster -s": "metadata.json",
    "exportMetadata -c DefaultCluster -t": "topic.json",
    "exportMetadata -c DefaultCluster -g": "subscriptionGroup.json",
    "exportMetadata -b $B -t": "topic.json",
    "exportMetadata -b $B -g": "subscriptionGroup.json",
}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Path and value of each leaf; of times and ratios, which change, the type instead.

    A rate is 0.0 in Java, and null for us, while the broker has not yet published it.
    """
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, f"{path}/{key}")
    elif path.endswith("Tps"):
        assert value is None or isinstance(value, float), path
        yield path, "rate"
    elif path.endswith(("exportTime", "Ratio", "AverageSize")):
        yield path, type(value).__name__
    else:
        yield path, value


def test_both_tools_export_the_same_files(peers: Peers, tmp_path: Path) -> None:
    assert peers.ours("updateSubGroup -c DefaultCluster -g exported").returncode == 0
    for number, (line, name) in enumerate(EXPORTS.items()):
        folders = {side: tmp_path / f"{side}{number}" for side in ("java", "ours")}
        java = peers.java(f"{line} -f {folders['java']}")
        done = peers.ours(f"{line} -f {folders['ours']}")
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == f"export {folders['ours'] / name} success"
        assert java.strip() == f"export {folders['java'] / name} success"
        theirs, ours = (
            dict(leaves(json.loads((folder / name).read_text()))) for folder in folders.values()
        )
        different = {key: (theirs.get(key), ours.get(key)) for key in theirs | ours}
        assert not {key: pair for key, pair in different.items() if pair[0] != pair[1]}, line


def without_order(text: str) -> list[str]:
    """The lines with the properties of a message sorted: Java has them in hash order."""
    return [
        re.sub(r"properties={(.*?)}", lambda one: str(sorted(one[1].split(", "))), line)
        for line in text.splitlines()
    ]


def test_both_tools_dump_the_records_of_a_file_the_same(peers: Peers, tmp_path: Path) -> None:
    host = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")
    path = tmp_path / "log"
    path.write_bytes(
        b"".join(
            encode_record(
                MessageExt(
                    "Orders",
                    b"body",
                    encode_properties({"KEYS": f"k{number}", "TAGS": "A", "colour": "blue"}),
                    magic=MAGIC_V1,
                    body_crc=body_crc(b"body"),
                    queue_id=1,
                    queue_offset=number,
                    physical_offset=number * 1_000,
                    born_timestamp=5,
                    store_timestamp=6,
                    born_host_raw=host,
                    store_host_raw=host,
                )
            )
            for number in range(3)
        )
    )
    java = peers.java(f"dumpCompactionLog -f {path}")
    done = peers.ours(f"dumpCompactionLog -f {path}")
    assert done.returncode == 0, done.stderr
    assert len(java.splitlines()) == 3
    assert without_order(done.stdout) == without_order(java)


def test_broker_status_has_the_same_keys(peers: Peers) -> None:
    line = "brokerStatus -b $B"
    java, ours = (
        {row.partition(":")[0].strip() for row in text.splitlines() if row}
        for text in (peers.java(line), peers.ours(line).stdout)
    )
    assert java == ours


@pytest.mark.parametrize("line", FAILURES)
def test_a_failure_has_a_status_and_names_its_error(peers: Peers, line: str) -> None:
    done = peers.ours(line)
    assert (done.returncode, done.stdout) == (FAILURES[line], "")
    assert done.stderr.startswith("context") or done.stderr.startswith("error: ")
