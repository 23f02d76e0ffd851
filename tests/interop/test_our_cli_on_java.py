"""Our mqadmin gives the same results about a real Java cluster as about ours."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

MQADMIN = Path(sys.executable).parent / "mqadmin"


class Side(NamedTuple):
    """One of the two clusters, and a folder for files of the commands."""

    name: str
    namesrv: str
    broker: str
    sent: list[dict[str, Any]]
    folder: Path


CONSUMED = "the on-line group has committed all messages"


def is_consumed(side: Side, committed: Callable[..., str | None]) -> bool:
    offsets = [committed(side.broker, "Orders", "till", queue_id) for queue_id in range(4)]
    return offsets == ["3", "4", "3", "3"]


@pytest.fixture(scope="module")
def sides(
    our_cluster: tuple[str, str],
    java_cluster: tuple[str, str],
    peer_533: Any,
    make_topic: Callable[..., None],
    until: Callable[..., Any],
    committed: Callable[..., str | None],
    send_to_dlq: Callable[..., None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[list[Side]]:
    """Both clusters: the same messages, a group on-line, one off-line, one with dead letters."""
    both = []
    for name, (namesrv, broker) in (("java", java_cluster), ("ours", our_cluster)):
        make_topic(broker, "Orders")
        make_topic(broker, "Letters", 1)
        words = {"namesrv": namesrv, "topic": "Orders", "group": "shop"}
        sent = []
        for queue_id in range(4):
            sent += peer_533.produce(
                **words,
                queue=queue_id,
                first=3 * queue_id,
                count=3,
                tags="A,B",
                keys="order{i} all",
                properties={"n": "{i}"},
            )
        shape = {"size": 5000, "compressible": True, "compressType": "LZ4", "keys": "big"}
        peer_533.produce(**words, **shape, queue=1, first=12, count=1)
        for group in ("till", "old", "dead"):
            peer_533.mqadmin("updateSubGroup", "-n", namesrv, "-b", broker, "-g", group)
        consumer = f"till@{name}"
        peer_533.ask("consume", consumer=consumer, **{**words, "group": "till"})
        peer_533.messages(consumer, 13)
        words["topic"] = "Letters"
        for number in range(2):
            (letter,) = peer_533.produce(
                **words, queue=0, first=number, count=1, keys="letter{i}", body="dear-"
            )
            send_to_dlq(broker, "dead", "Letters", letter)
        peer_533.ask("committed", **{**words, "group": "dead"}, queue=0, offset=2)
        words.update(topic="Orders", group="old")
        for queue_id, offset in ((1, 2), (3, 1)):
            peer_533.ask("committed", **words, queue=queue_id, offset=offset)
        peer_533.ask("forget", namesrv=namesrv)
        both.append(Side(name, namesrv, broker, sent, tmp_path_factory.mktemp(f"cli-{name}")))
    for side in both:
        until(lambda side=side: is_consumed(side, committed), CONSUMED)
    yield both
    for side in both:
        peer_533.ask("stop", consumer=f"till@{side.name}")


def mqadmin(side: Side, line: str, *words: str) -> subprocess.CompletedProcess[str]:
    given = {
        "$B": side.broker,
        "$ID": side.sent[5]["offsetMsgId"],
        "$UNIQ": side.sent[5]["msgId"],
    }
    args = [given.get(word, word) for word in [*line.split(), *words]]
    return subprocess.run(
        [str(MQADMIN), *args, "-n", side.namesrv, "-o", "json", "--timeout", "60s"],
        capture_output=True,
        text=True,
        cwd=side.folder,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )


# Fields with times, rates or a place: present on both sides, but not equal.
LOCAL = re.compile(
    r"(.*(Time|Timestamp|Tps|Host|MsgId|DiskRatio)|uniqKey|UNIQ_KEY|ORIGIN_MESSAGE_ID|id|lagSeconds"
    r"|growthPerHour|dataVersion|subVersion|message)$"
)


def masked(value: Any, side: Side, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: masked(item, side, key) for key, item in value.items()}
    if isinstance(value, list):
        return [masked(item, side, name) for item in value]
    if LOCAL.match(name):
        return f"<{name}>"
    if isinstance(value, str):
        value = value.replace(side.namesrv, "<namesrv>").replace(side.broker, "<broker>")
        value = re.sub(r"127\.0\.0\.1:\d+", "<address>", value)
        value = re.sub(r"\b[0-9A-F]{32}\b", "<id>", value)
        return re.sub(r"(till|dead)@(java|ours)", r"\1", value).replace(str(side.folder), "<here>")
    return value


def answer(side: Side, line: str, *words: str) -> tuple[int, Any, Any]:
    """Exit status, data on stdout, and the object of the error."""
    done = mqadmin(side, line, *words)
    data = masked(json.loads(done.stdout), side) if done.stdout.strip() else None
    errors = [json.loads(row) for row in done.stderr.splitlines() if row.startswith('{"error"')]
    kinds = [
        (error["error"]["kind"], error["error"]["requestCode"], error["error"]["responseCode"])
        for error in errors
    ]
    return done.returncode, data, kinds


def differences(java: Any, ours: Any, path: str = "") -> list[str]:
    """Where two answers differ, as readable lines."""
    if isinstance(java, dict) and isinstance(ours, dict):
        return [
            found
            for key in sorted({*java, *ours})
            for found in differences(
                java.get(key, "absent"), ours.get(key, "absent"), f"{path}.{key}"
            )
        ]
    if isinstance(java, list | tuple) and isinstance(ours, list | tuple) and len(java) == len(ours):
        return [
            found
            for number, pair in enumerate(zip(java, ours, strict=True))
            for found in differences(*pair, f"{path}[{number}]")
        ]
    return [] if java == ours else [f"{path}: Java {java!r}, ours {ours!r}"]


def same(sides: list[Side], line: str, *words: str) -> tuple[int, Any]:
    """The answer both sides give."""
    java, ours = (answer(side, line, *words) for side in sides)
    assert not differences(java, ours), line
    return java[0], java[1]


def items(sides: list[Side], line: str, *words: str) -> list[Any]:
    status, data = same(sides, line, *words)
    assert status == 0, line
    found: list[Any] = data["items"]
    return found


def test_clusters_and_brokers(sides: list[Side]) -> None:
    (broker,) = items(sides, "cluster list")
    assert (broker["clusterName"], broker["brokerName"], broker["brokerId"]) == (
        *("DefaultCluster", "broker-a"),
        0,
    )
    status = [mqadmin(side, "broker status") for side in sides]
    java, ours = (json.loads(done.stdout) for done in status)
    assert [key for key in java if key != "items"] == [key for key in ours if key != "items"]
    java, ours = (json.loads(mqadmin(side, "broker config show").stdout) for side in sides)
    assert java["schema"] == ours["schema"]


def test_topics(sides: list[Side]) -> None:
    names = {item["topic"] for item in items(sides, "topic list")}
    assert {"Orders", "Letters", "%DLQ%dead", "%RETRY%till"} <= names
    assert items(sides, "topic show Orders")[0]["writeQueueNums"] == 4
    assert same(sides, "topic show NoSuch")[0] == 1
    assert same(sides, "topic route Orders")[1]["queues"][0]["perm"] == 6
    assert same(sides, "topic route NoSuch")[0] == 1
    assert [item["maxOffset"] for item in items(sides, "topic status Letters")] == [2]
    assert same(sides, "topic status NoSuch")[0] == 1


def test_life_of_a_topic(sides: list[Side]) -> None:
    (plan,) = items(sides, "topic create Fresh --queues 3 --dry-run")
    assert plan["status"] == "planned"
    assert same(sides, "topic show Fresh")[0] == 1
    (made,) = items(sides, "topic create Fresh --queues 3 --yes")
    assert made["readBack"]["readQueueNums"] == 3
    assert same(sides, "topic create Fresh --queues 3 --yes")[0] == 1
    items(sides, "topic create Fresh --queues 3 --yes --if-not-exists")
    items(sides, "topic update Fresh --write-queues 2 --yes")
    (row,) = items(sides, "topic show Fresh")
    assert (row["readQueueNums"], row["writeQueueNums"], row["perm"]) == (3, 2, 6)
    items(sides, "topic perm Fresh r --yes")
    assert same(sides, "topic route Fresh")[1]["queues"][0]["perm"] == 4
    items(sides, "topic update Fresh --attribute +message.type=FIFO --yes")
    (row,) = items(sides, "topic show Fresh")
    assert row["attributes"] == {"message.type": "FIFO"}
    assert same(sides, "topic update Fresh --attribute +no.such=1 --yes")[0] != 0
    assert same(sides, "topic update NoSuch --write-queues 2 --yes")[0] == 1
    items(sides, "topic delete Fresh --yes")
    assert same(sides, "topic show Fresh")[0] == 1
    assert same(sides, "topic delete Fresh --yes")[0] == 1


def test_life_of_a_group(sides: list[Side]) -> None:
    assert {"till", "old", "dead"} <= {item["group"] for item in items(sides, "group list")}
    items(sides, "group create made --retry-max 5 --yes")
    assert items(sides, "group show made")[0]["retryMaxTimes"] == 5
    items(sides, "group update made --no-consume --yes")
    (row,) = items(sides, "group show made")
    assert (row["consumeEnable"], row["retryMaxTimes"]) == (False, 5)
    assert same(sides, "group show NoSuch")[0] == 1
    items(sides, "group delete made --yes")
    assert same(sides, "group show made")[0] == 1


@pytest.mark.parametrize(
    ("line", "places"),
    [
        ("--key order5", [(1, 2)]),
        ("--key order5 --begin -1h --end now", [(1, 2)]),
        ("--key nothing", None),
        ("--key nothing --scan", None),
        ("--key order5 --scan", [(1, 2)]),
        ("--key order5 --begin -2h --end -1h", None),
        ("--key all --max 64", [(q, n) for q in range(4) for n in range(3)]),
        ("--id $UNIQ", [(1, 2)]),
        ("--uniq-key $UNIQ", [(1, 2)]),
        ("--queue 1 --offset 2", [(1, 2)]),
        ("--queue 1 --offset 1 --count 2 --body text", [(1, 1), (1, 2)]),
        ("--queue 1 --offset 999", None),
        ("--begin -1h --end now --tags B", [(0, 1), (1, 0), (1, 2), (2, 1), (3, 0), (3, 2)]),
        ("--begin -2h --end -1h", None),
        ("--key big --body text", [(1, 3)]),
        ("--key big --body hex --raw", [(1, 3)]),
    ],
)
def test_messages_are_found(
    sides: list[Side], line: str, places: list[tuple[int, int]] | None
) -> None:
    status, data = same(sides, f"msg query --topic Orders {line}")
    if places is None:
        assert status == 1
        return
    assert status == 0
    assert sorted((m["queueId"], m["queueOffset"]) for m in data["items"]) == places
    assert all(message["crcOk"] for message in data["items"])


def test_messages_by_offset_id(sides: list[Side]) -> None:
    (found,) = items(sides, "msg query --id $ID --body text")
    assert (found["body"], found["keys"], found["tags"]) == ("body-5", ["order5", "all"], "B")
    assert same(sides, "msg show $ID")[1]["properties"]["n"] == "5"
    assert same(sides, "msg query --id 7F00000100002A9F0000000000000000")[0] != 0
    assert same(sides, "msg query --topic NoSuch --key order5")[0] == 1
    assert same(sides, "msg query --topic Orders --key all --max 3")[0] == 0  # cut as asked


def test_send_and_tail(sides: list[Side]) -> None:
    status, sent = same(
        sides, "msg send --topic Letters --body hello --key sent --tag T --property a=b"
    )
    assert (status, sent["sendStatus"], sent["queueOffset"]) == (0, "SEND_OK", 2)
    (found,) = items(sides, "msg query --topic Letters --key sent --body text")
    assert (found["body"], found["tags"], found["properties"]["a"]) == ("hello", "T", "b")
    tail = items(sides, "msg tail --topic Letters --last 2 --no-follow")
    assert [message["body"] for message in tail] == ["dear-1", "hello"]
    assert same(sides, "msg send --topic NoSuch --body hello")[0] == 1
    assert same(sides, "msg send --topic Orders --body hello --queue 77")[0] == 1


def test_consumers(sides: list[Side]) -> None:
    groups = {item["group"]: item for item in items(sides, "consumer list")}
    assert (groups["till"]["clients"], groups["till"]["lag"]) == (1, 0)
    assert groups["old"]["clients"] == 0
    lag = items(sides, "consumer lag till --topic Orders")
    assert [(item["queueId"], item["lag"], item["state"]) for item in lag] == [
        (queue_id, 0, "ok") for queue_id in range(4)
    ]
    assert all(
        item["clientId"] is not None
        for item in items(sides, "consumer lag till --topic Orders --clients")
    )
    lag = items(sides, "consumer lag old")
    assert {item["queueId"]: item["lag"] for item in lag}[1] == 2
    status, data = same(sides, "consumer connections till")
    assert status == 0
    assert "CONSUME_PASSIVELY" in json.dumps(data)
    assert same(sides, "consumer connections old")[0] == 1
    assert same(sides, "consumer lag NoSuch")[0] == 1


def test_offset_reset_of_an_offline_group_and_back(sides: list[Side]) -> None:
    def offsets() -> dict[int, int | None]:
        return {item["queueId"]: item["consumerOffset"] for item in items(sides, "offset show old")}

    before = offsets()
    assert (before[1], before[3]) == (2, 1)
    reset = "offset reset old --topic Orders --yes --to"
    items(sides, "offset reset old --topic Orders --dry-run --to earliest")
    assert offsets() == before
    items(sides, reset, "earliest", "--undo-file", "first.json")
    assert (offsets()[1], offsets()[3]) == (0, 0)
    items(sides, reset, "latest", "--undo-file", "second.json")
    assert (offsets()[1], offsets()[3]) == (4, 3)
    items(sides, reset, "shift:-2", "--queue", "1", "--undo-file", "third.json")
    assert (offsets()[1], offsets()[3]) == (2, 3)
    items(sides, reset, "1", "--undo-file", "fourth.json")
    assert (offsets()[1], offsets()[3]) == (1, 1)
    items(sides, reset, "-1h", "--undo-file", "fifth.json")
    assert (offsets()[1], offsets()[3]) == (0, 0)
    items(sides, reset, "file:first.json", "--undo-file", "sixth.json")
    assert offsets() == before  # also the queues that had no offset
    assert same(sides, "offset reset NoSuch --topic Orders --yes --to earliest")[0] == 1
    assert same(sides, "offset reset old --topic NoSuch --yes --to earliest")[0] == 1


def test_dead_letters(sides: list[Side]) -> None:
    (row,) = items(sides, "dlq list")
    assert (row["group"], row["messages"]) == ("dead", 2)
    dead_letters = items(sides, "dlq show dead --body text")
    assert [letter["body"] for letter in dead_letters] == ["dear-0", "dear-1"]
    assert dead_letters[0]["properties"]["RETRY_TOPIC"] == "Letters"
    assert same(sides, "dlq show NoSuch")[0] == 1


def test_offset_reset_of_an_online_group(
    sides: list[Side],
    peer_533: Any,
    until: Callable[..., Any],
    committed: Callable[..., str | None],
) -> None:
    """Our broker notifies the members at once; the Java broker resets them at the next pull."""
    done = [
        mqadmin(side, "offset reset till --topic Orders --to earliest --yes --undo-file u.json")
        for side in sides
    ]
    for process in done:
        assert process.returncode == 0, process.stderr
        assert {row["newOffset"] for row in json.loads(process.stdout)["items"]} == {0}
    ours = sides[1]
    peer_533.messages_with(f"till@{ours.name}", {event["msgId"] for event in ours.sent})
    for side in sides:  # later tests compare these offsets
        until(lambda side=side: is_consumed(side, committed), CONSUMED)


def test_offsets_are_exported_imported_cloned_and_undone(sides: list[Side]) -> None:
    def offsets(group: str) -> dict[int, int | None]:
        rows = items(sides, f"offset show {group} --topic Orders")
        return {row["queueId"]: row["consumerOffset"] for row in rows}

    items(sides, "group create copied --yes")
    saved = items(sides, "offset export old --topic Orders")
    assert {row["queueId"]: row["consumerOffset"] for row in saved} == offsets("old")
    assert same(sides, "offset export old --topic Orders --out old.csv")[0] == 0
    items(sides, "offset import copied old.csv --dry-run")
    items(sides, "offset import copied old.csv --yes --undo-file import.json")
    assert offsets("copied") == offsets("old")
    items(sides, "offset undo import.json --yes --undo-file undo.json")
    assert set(offsets("copied").values()) == {None}  # absent, as before the import
    items(sides, "offset clone till copied --topic Orders --yes --undo-file clone.json")
    assert offsets("copied") == offsets("till")
    items(sides, "offset undo clone.json --yes --undo-file again.json")
    assert set(offsets("copied").values()) == {None}
    starts = items(sides, "offset at Orders --since @1700000000")
    assert [row["offset"] for row in starts] == [0, 0, 0, 0]
    ends = items(sides, "offset at Orders --since @4000000000")
    assert [row["offset"] for row in ends] == [row["maxOffset"] for row in ends]
