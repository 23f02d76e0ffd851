"""``msg produce``, ``msg consume`` and ``bench`` against a Java broker and against ours."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import OurServers, Peer, close_all

MQADMIN = Path(sys.executable).parent / "mqadmin"
COUNT = 300


@pytest.fixture(params=["java", "our"])
def cluster(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.getfixturevalue(f"{request.param}_cluster")  # type: ignore[no-any-return]


def mqadmin(
    namesrv: str, *words: str, stdin: bytes = b"", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [
            str(MQADMIN),
            *words,
            "-n",
            namesrv,
            *(() if "--timeout" in words else ("--timeout", "30s")),
        ],
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, **(env or {})},
    )


def rows(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def numbered() -> bytes:
    lines = (
        {"body": f"{number}", "keys": [f"k{number % 11}"], "tags": "AB"[number % 2]}
        for number in range(COUNT)
    )
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.mark.parametrize("options", [(), ("--batch", "16"), ("--ordered-by", "keys")])
def test_a_topic_is_produced_consumed_and_copied(
    cluster: tuple[str, str], make_topic: Callable[..., None], options: tuple[str, ...]
) -> None:
    namesrv, broker = cluster
    name = "Bulk" + "".join(options).replace("-", "")
    for topic in (name, f"{name}Copy"):
        make_topic(broker, topic)
    sent = mqadmin(namesrv, "msg", "produce", name, *options, "-o", "json", stdin=numbered())
    assert (sent.returncode, sent.stderr) == (0, b"")
    assert json.loads(sent.stdout)["sent"] == COUNT

    words = ("--start", "earliest", "--idle", "3s", "-o", "ndjson")
    read = mqadmin(namesrv, "msg", "consume", name, *words)
    found = rows(read)
    assert sorted(int(row["body"]) for row in found) == list(range(COUNT))
    if options[:1] == ("--ordered-by",):
        for key in {row["keys"][0] for row in found}:
            of_key = sorted(
                (row["queueId"], row["queueOffset"], int(row["body"]))
                for row in found
                if row["keys"] == [key]
            )
            assert len({place[0] for place in of_key}) == 1
            assert [place[2] for place in of_key] == sorted(place[2] for place in of_key)

    copied = mqadmin(namesrv, "msg", "produce", f"{name}Copy", "-o", "json", stdin=read.stdout)
    assert json.loads(copied.stdout)["sent"] == COUNT
    group = f"copy_{name}"
    first = mqadmin(
        *(namesrv, "msg", "consume", f"{name}Copy", "-g", group, "--limit", "77", *words),
    )
    second = mqadmin(namesrv, "msg", "consume", f"{name}Copy", "-g", group, *words)
    assert (first.returncode, second.returncode) == (0, 0), (first.stderr, second.stderr)
    assert len(rows(first)) == 77
    bodies = [int(row["body"]) for row in rows(first) + rows(second)]
    assert sorted(bodies) == list(range(COUNT))
    tags = {(row["body"], row["tags"], row["keys"][0]) for row in rows(first) + rows(second)}
    assert tags == {(f"{n}", "AB"[n % 2], f"k{n % 11}") for n in range(COUNT)}


def test_measurements_count_every_message(
    cluster: tuple[str, str], make_topic: Callable[..., None]
) -> None:
    namesrv, broker = cluster
    make_topic(broker, "BulkBench")
    words = ("--count", "200", "--warm-up", "0s", "-o", "json")
    sent = json.loads(mqadmin(namesrv, "bench", "produce", "BulkBench", *words).stdout)
    assert sent["messages"] >= 200
    done = mqadmin(namesrv, "bench", "consume", "BulkBench", "--idle", "5s", "-o", "json")
    assert json.loads(done.stdout)["messages"] == sent["messages"], done.stderr
    trip = mqadmin(namesrv, "bench", "roundtrip", "BulkBench", *words)
    result = json.loads(trip.stdout)
    assert (trip.returncode, result["lost"], result["failed"]) == (0, 0, 0), trip.stderr
    # a pull left at a Java broker would have created the group of `bench consume` again by now
    groups = json.loads(mqadmin(namesrv, "group", "list", "-o", "json").stdout)["items"]
    assert not [one["group"] for one in groups if one["group"].startswith("mqadmin_bench_")]


def test_a_member_that_does_not_commit_takes_no_message_from_a_java_member(
    cluster: tuple[str, str],
    peer_533: Peer,
    make_topic: Callable[..., None],
    until: Callable[..., Any],
) -> None:
    namesrv, broker = cluster
    topic = f"Shared{broker.rpartition(':')[2]}"
    make_topic(broker, topic)
    words = {"namesrv": namesrv, "topic": topic, "group": f"g-{topic}", "consumer": topic}
    peer_533.ask("consume", **words)
    try:
        reading = subprocess.Popen(
            [
                *(str(MQADMIN), "msg", "consume", topic, "-g", f"g-{topic}", "--no-commit"),
                *("-n", namesrv, "--start", "earliest", "--idle", "6s", "-o", "ndjson"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        until(
            lambda: len(peer_533.ask("assigned", consumer=topic, topic=topic)[:-1]) == 2,
            "the members share the queues",
        )
        sent = mqadmin(namesrv, "msg", "produce", topic, "-o", "json", stdin=numbered())
        assert json.loads(sent.stdout)["sent"] == COUNT
        out, err = reading.communicate(timeout=90)
        assert reading.returncode == 0, err
        seen = {json.loads(line)["uniqKey"] for line in out.splitlines()}
        assert 0 < len(seen) < COUNT
        keys = {row["uniqKey"] for row in rows(read_all(namesrv, topic))}
        assert len(keys) == COUNT
        peer_533.messages_with(topic, keys)
        refused = mqadmin(namesrv, "msg", "consume", topic, "-g", f"g-{topic}", "--tag", "A")
        assert refused.returncode == 1
        assert b"the members of group" in refused.stderr
    finally:
        peer_533.ask("stop", consumer=topic)


def read_all(namesrv: str, topic: str) -> subprocess.CompletedProcess[bytes]:
    words = ("--start", "earliest", "--idle", "3s", "-o", "ndjson")
    return mqadmin(namesrv, "msg", "consume", topic, *words)


def test_a_broker_that_hangs_ends_the_commands_in_time(
    our_servers_for_hanging: tuple[str, Any], make_topic: Callable[..., None]
) -> None:
    namesrv, broker = our_servers_for_hanging
    make_topic(broker.address, "Hanging")
    words = ("--timeout", "3s", "-o", "json")
    broker.process.send_signal(signal.SIGSTOP)
    try:
        line = b'{"body":"x"}\n'
        sent = mqadmin(namesrv, "msg", "produce", "Hanging", *words, stdin=line * 3)
        assert sent.returncode == 3, sent.stderr
        result = json.loads(sent.stdout)
        assert (result["sent"], result["failed"]) == (0, 3)
        assert {one["kind"] for one in result["failures"]} == {"timeout"}
        for more in ((), ("-g", "hang"), ("-g", "hang", "--no-commit")):
            read = mqadmin(namesrv, "msg", "consume", "Hanging", *more, *words, "--idle", "2s")
            assert read.returncode in (3, 5), (more, read.stderr)
    finally:
        broker.process.send_signal(signal.SIGCONT)


@pytest.fixture
def our_servers_for_hanging(tmp_path: Path) -> Iterator[tuple[str, Any]]:
    servers = OurServers()
    namesrv = servers.namesrv(tmp_path / "ns")
    broker = servers.broker(tmp_path, tmp_path / "store", namesrv)
    yield namesrv, broker
    close_all(servers.running)
