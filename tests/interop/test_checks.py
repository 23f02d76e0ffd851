"""Checks, doctors and the live screen against a real Java broker and ours, hung and stopped."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from tests.interop.conftest import JavaServers, OurServers, close_all

MQADMIN = Path(sys.executable).parent / "mqadmin"

Servers = tuple[str, Any, Any]  # name server, broker daemon, store


@pytest.fixture(scope="module", params=["java", "ours"])
def servers(
    request: pytest.FixtureRequest, java_533: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """A name server and a broker with a topic, a group with lag and two dead letters."""
    work = tmp_path_factory.mktemp(f"checks-{request.param}")
    made: JavaServers | OurServers = (
        JavaServers(java_533) if request.param == "java" else OurServers()
    )
    namesrv = made.namesrv(work)
    broker = made.broker(work, work / "store", namesrv)
    yield namesrv, broker, work / "store"
    close_all(made.running)


@pytest.fixture(scope="module")
def filled(servers: Servers, make_topic: Callable[..., None]) -> Servers:
    namesrv, broker, _ = servers
    make_topic(broker.address, "Checked", 1)
    make_topic(broker.address, "%DLQ%lagging", 1)
    assert mqadmin(namesrv, "group", "create", "lagging", "--yes").returncode == 0
    for topic in ("Checked", "Checked", "%DLQ%lagging"):
        assert mqadmin(namesrv, "msg", "send", topic, "--body", "x").returncode == 0
    with BlockingClient(timeout_ms=20_000) as client:
        fields = {
            "consumerGroup": "lagging",
            "topic": "Checked",
            "queueId": "0",
            "commitOffset": "1",
        }
        answer = client.call(broker.address, request(RequestCode.UPDATE_CONSUMER_OFFSET, fields))
        assert answer.code == 0, answer.remark
    return servers


def mqadmin(namesrv: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(MQADMIN), *words, "-n", namesrv],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("line", "status", "part"),
    [
        ("check broker", 0, "BROKER OK - broker-a: pageCacheLock 0s"),
        ("check disk --warn 100% --crit 100%", 0, "DISK OK - broker-a: commitLogDisk "),
        ("check disk --warn 0% --crit 100%", 1, "DISK WARNING - broker-a: commitLogDisk "),
        ("check disk --crit 0%", 2, "DISK CRITICAL - broker-a: commitLogDisk "),
        ("check clock", 0, "CLOCK OK - broker-a: skew "),
        ("check namesrv", 0, "NAMESRV OK - 127.0.0.1:"),
        ("check lag lagging", 0, "LAG OK - lagging/Checked: lag 1"),
        ("check lag lagging --warn 0", 1, "LAG WARNING - lagging/Checked: lag 1 (limit 0)"),
        ("check lag lagging --online 1", 2, "LAG CRITICAL - lagging/Checked: 0 clients"),
        ("check lag nosuch", 3, "LAG UNKNOWN - nosuch: no offset is committed"),
        ("check dlq lagging", 1, "DLQ WARNING - lagging: deadLetters 1 (limit 0)"),
        ("check replication --in-sync 0", 0, "REPLICATION OK - broker-a"),
    ],
)
def test_a_check_measures_a_broker(filled: Servers, line: str, status: int, part: str) -> None:
    done = mqadmin(filled[0], *line.split())
    assert (done.returncode, done.stdout[: len(part)]) == (status, part), done.stderr


def test_every_value_of_the_runtime_information_is_known(filled: Servers) -> None:
    for check in ("broker", "disk", "clock"):
        (row,) = json.loads(mqadmin(filled[0], "check", check, "-o", "json").stdout)["items"]
        unknown = [metric["name"] for metric in row["metrics"] if metric["value"] is None]
        # a Java broker has no rates before its first sampling
        assert set(unknown) <= {"putTps", "getTps"}, check


def test_the_store_of_a_running_broker_is_checked(filled: Servers) -> None:
    done = mqadmin(filled[0], "check", "store", str(filled[2]))
    assert done.returncode == 0, done.stdout


def test_samples_are_written_to_a_file(filled: Servers, tmp_path: Path) -> None:
    path = tmp_path / "lag.prom"
    assert mqadmin(filled[0], "check", "lag", "lagging", "--outfile", str(path)).returncode == 0
    assert 'rocketmq_group_diff{group="lagging",topic="Checked"' in path.read_text()


def test_a_sound_cluster_has_no_critical_finding_but_the_disk(filled: Servers) -> None:
    done = mqadmin(filled[0], "cluster", "doctor", "-o", "json")
    found = json.loads(done.stdout)["items"]
    host = {"disk"} | {one["kind"] for one in found if one["kind"].startswith("os")}
    assert {one["kind"] for one in found} - host <= {"singleCopy"}, found


def test_the_load_of_broker_and_topic_is_shown(filled: Servers) -> None:
    done = mqadmin(filled[0], "cluster", "top", "--once", "-o", "json")
    (row,) = json.loads(done.stdout)["items"]
    assert (row["brokerName"], row["state"] in ("ok", "full")) == ("broker-a", True)
    assert row["commitLogDiskRatio"] > 0
    done = mqadmin(filled[0], "topic", "stats", "Checked", "-o", "json")
    (topic,) = json.loads(done.stdout)["items"]
    assert (topic["group"], topic["lag"]) == ("lagging", 1)


def test_a_real_client_that_consumes_has_no_serious_finding(
    filled: Servers, peer_533: Any, until: Callable[..., Any]
) -> None:
    namesrv = filled[0]
    assert mqadmin(namesrv, "group", "create", "sound", "--yes").returncode == 0
    words = {"namesrv": namesrv, "topic": "Checked", "group": "sound"}
    peer_533.ask("consume", consumer=f"sound@{namesrv}", **words)
    try:
        peer_533.messages(f"sound@{namesrv}", 2)

        def findings() -> list[Any]:
            done = mqadmin(namesrv, "consumer", "doctor", "sound", "-o", "json")
            return list(json.loads(done.stdout)["items"])

        until(lambda: findings() == [], "no findings")
        done = mqadmin(namesrv, "check", "lag", "sound", "--online", "1")
        assert done.returncode == 0, done.stdout
    finally:
        peer_533.ask("stop", consumer=f"sound@{namesrv}")
    peer_533.ask("forget", namesrv=namesrv)


def test_a_group_that_sends_its_messages_back_is_a_finding(
    servers: Servers, make_topic: Callable[..., None], peer_533: Any, until: Callable[..., Any]
) -> None:
    namesrv, broker, _ = servers
    make_topic(broker.address, "Retried", 1)
    words = {"namesrv": namesrv, "topic": "Retried", "group": "failing"}
    consumer = f"failing@{namesrv}"
    assert mqadmin(namesrv, "group", "create", "failing", "--yes").returncode == 0
    peer_533.ask("consume", consumer=consumer, failTimes=100, **words)
    try:
        lines = "".join(f"m{number}\n" for number in range(12))
        subprocess.run(
            [
                *(str(MQADMIN), "msg", "produce", "Retried", "--input-format", "lines"),
                "-n",
                namesrv,
            ],
            input=lines.encode(),
            check=True,
            timeout=60,
        )

        def kinds() -> list[str]:
            done = mqadmin(namesrv, "consumer", "doctor", "failing", "-o", "json")
            return [one["kind"] for one in json.loads(done.stdout)["items"]]

        until(lambda: "manyRetries" in kinds(), "a finding about retries", 60)
    finally:
        peer_533.ask("stop", consumer=consumer)
    peer_533.ask("forget", namesrv=namesrv)


def test_a_hung_broker_is_critical_for_its_check_and_unknown_for_the_others_in_time(
    filled: Servers,
) -> None:
    namesrv, broker, _ = filled
    broker.process.send_signal(signal.SIGSTOP)
    try:
        for check, status in (
            *(("broker", 2), ("disk", 3), ("clock", 3), ("lag", 3), ("dlq", 3)),
            ("namesrv", 0),
        ):
            done = mqadmin(namesrv, "check", check, "--timeout", "3s")
            assert done.returncode == status, (check, done.stdout, done.stderr)
        for words in (("cluster", "doctor"), ("consumer", "doctor")):
            done = mqadmin(namesrv, *words, "--timeout", "3s", "-o", "json")
            found = [one["kind"] for one in json.loads(done.stdout)["items"]]
            assert (done.returncode, "brokerUnreachable" in found) == (1, True), done.stderr
        done = mqadmin(namesrv, "cluster", "top", "--once", "--timeout", "3s", "-o", "json")
        (row,) = json.loads(done.stdout)["items"]
        assert (done.returncode, row["state"]) == (5, "down")
    finally:
        broker.process.send_signal(signal.SIGCONT)
