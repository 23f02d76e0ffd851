"""The tools for delayed messages, POP and the fate of messages: a Java cluster and ours agree."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.test_pop import PopPeer

MQADMIN = Path(sys.executable).parent / "mqadmin"
SETTINGS = {
    "recallMessageEnable": "true",
    "traceTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
}


def mqadmin(namesrv: str, line: str, *words: str) -> tuple[int, list[dict[str, Any]], str]:
    done = subprocess.run(
        [str(MQADMIN), *line.split(), *words, "-n", namesrv, "-o", "json", "--timeout", "60s"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    return done.returncode, json.loads(done.stdout or '{"items": []}')["items"], done.stderr


@pytest.fixture(scope="module")
def sides(
    brokers_of_both_kinds: Callable[..., list[tuple[str, str, Path]]],
    make_topic: Callable[..., None],
    peer_533: Any,
) -> Iterator[list[tuple[str, str, Path]]]:
    """Both brokers with the topic Orders."""
    both = brokers_of_both_kinds(**SETTINGS)
    for _, broker, _ in both:
        make_topic(broker, "Orders", 2)
    yield both
    for namesrv, _, _ in both:
        peer_533.ask("forget", namesrv=namesrv)


def test_delay_levels_and_waiting_messages_are_listed_on_both(
    sides: list[tuple[str, str, Path]], peer_533: Any, until: Callable[..., Any]
) -> None:
    seen = []
    for namesrv, _, store in sides:
        words = {"namesrv": namesrv, "topic": "Orders", "queue": 1}
        for name in ("a", "b"):
            peer_533.produce(**words, body=name, keys=name, system={"DELAY": 9})
        level = "delay levels"

        def waiting(namesrv: str = namesrv, level: str = level) -> Any:
            rows = mqadmin(namesrv, level)[1]
            return rows if rows[8]["backlog"] == 2 else None

        rows = until(waiting, "the backlog of level 9")
        assert 200_000 < rows[8]["nextDueInMs"] <= 300_000
        status, pending, _ = mqadmin(namesrv, "delay pending --topic Orders")
        assert status == 0
        offline = until(
            lambda store=store: len(mqadmin("-", f"delay pending --store {store}")[1]) == 2,
            "the ConsumeQueue on the disk",
        )
        assert offline
        found = mqadmin("-", f"delay pending --store {store}")[1]
        assert [row["dueTimestamp"] for row in found] == [row["dueTimestamp"] for row in pending]
        seen.append(
            (
                [(row["level"], row["delayMs"], row["backlog"]) for row in rows],
                [(row["level"], row["queueId"], row["keys"]) for row in pending],
            )
        )
    assert seen[0] == seen[1]


def test_timers_are_listed_and_recalled_on_both(
    sides: list[tuple[str, str, Path]], peer_533: Any, until: Callable[..., Any]
) -> None:
    for namesrv, _, store in sides:
        words = {"namesrv": namesrv, "topic": "Orders", "queue": 0}
        sent = {
            name: peer_533.produce(
                **words, body=name, keys=name, system={"TIMER_DELAY_SEC": seconds}
            )[0]
            for name, seconds in (("kept", 7_200), ("gone", 3_600), ("also", 3_700))
        }

        def keys(namesrv: str = namesrv) -> list[str]:
            return [row["keys"][0] for row in mqadmin(namesrv, "timer list --topic Orders")[1]]

        until(lambda keys=keys: keys() == ["gone", "also", "kept"], "three timers")
        (row,) = mqadmin(namesrv, "timer list --key gone")[1]
        assert row["recallHandle"] == sent["gone"]["recallHandle"]
        assert mqadmin(namesrv, "timer recall gone --dry-run")[1][0]["status"] == "planned"
        status, items, error = mqadmin(namesrv, "timer recall gone --yes")
        assert (status, items[0]["status"]) == (0, "recalled"), error
        handle = sent["also"]["recallHandle"]
        assert mqadmin(namesrv, "timer recall --yes", handle)[0] == 0
        until(lambda keys=keys: keys() == ["kept"], "the recalls")
        assert mqadmin(namesrv, "timer recall nosuch --yes")[0] != 0

        def offline(store: Path = store) -> list[str]:
            return [row["keys"][0] for row in mqadmin("-", f"timer list --store {store}")[1]]

        until(lambda offline=offline: offline() == ["kept"], "the files")


def test_the_mode_of_a_group_is_set_and_read_on_both(sides: list[tuple[str, str, Path]]) -> None:
    for namesrv, _, _ in sides:
        assert mqadmin(namesrv, "group create modal --yes")[0] == 0
        assert mqadmin(namesrv, "consumer mode modal")[0] == 1
        status, items, error = mqadmin(
            namesrv, "consumer mode modal --topic Orders --set pop --share 2 --yes"
        )
        assert (status, items[0]["status"]) == (0, "done"), error
        (row,) = mqadmin(namesrv, "consumer mode modal")[1]
        assert (row["topic"], row["mode"], row["popShareQueueNum"]) == ("Orders", "POP", 2)
        assert mqadmin(namesrv, "consumer mode modal --topic Orders --assignments")[0] == 1
        status, items, _ = mqadmin(namesrv, "consumer mode modal --topic Orders --set pull --yes")
        assert (status, items[0]["readBack"]["mode"]) == (0, "PULL")


def test_messages_in_flight_are_those_popped_and_not_acknowledged_on_both(
    sides: list[tuple[str, str, Path]], make_topic: Callable[..., None], until: Callable[..., Any]
) -> None:
    for namesrv, broker, store in sides:
        make_topic(broker, "Popped", 1)
        assert mqadmin(namesrv, "group create popper --yes")[0] == 0
        peer = PopPeer(broker, "Popped", "popper")
        for name in "abcde":
            peer.send(name)
        peer.visible(5)
        popped = peer.pop(maxMsgNums=3, invisibleTime=600_000)
        assert len(popped) == 3
        assert peer.ack(*popped[1]) == 0

        def flying(namesrv: str = namesrv) -> list[tuple[Any, ...]]:
            rows = mqadmin(namesrv, "consumer lag popper --pop")[1]
            return [
                (row["topic"], row["lag"], row["inflight"])
                for row in rows
                if row["topic"] == "Popped"
            ]

        until(lambda flying=flying: flying() == [("Popped", 2, 2)], "two in flight")
        popped += peer.pop(maxMsgNums=32, invisibleTime=600_000)
        until(lambda flying=flying: flying() == [("Popped", 0, 4)], "four in flight")
        peer.close()

        def offline(store: Path = store) -> list[int]:
            rows = mqadmin("-", f"store inspect {store} --kind pop")[1]
            return [len(row["unacknowledged"]) for row in rows]

        until(lambda offline=offline: offline() == [2, 2], "the check points on the disk")


def test_the_groups_of_a_message_have_the_same_verdicts_on_both(
    sides: list[tuple[str, str, Path]],
    make_topic: Callable[..., None],
    peer_533: Any,
    until: Callable[..., Any],
) -> None:
    seen = []
    for namesrv, broker, _ in sides:
        make_topic(broker, "Fate", 1)
        words = {"namesrv": namesrv, "topic": "Fate"}
        for group in ("fate-done", "fate-other", "fate-gone", "fate-wide"):
            peer_533.mqadmin("updateSubGroup", "-n", namesrv, "-b", broker, "-g", group)
        (sent,) = peer_533.produce(**words, body="x", tags="A", keys="fate")
        every = {"model": "broadcast"}
        for group, more in (("fate-done", {}), ("fate-other", {"tags": "B"}), ("fate-wide", every)):
            peer_533.ask("consume", consumer=f"{group}@{namesrv}", group=group, **words, **more)
        peer_533.messages(f"fate-done@{namesrv}", 1)
        peer_533.ask("committed", **words, group="fate-gone", queue=0, offset=0)

        def track(
            namesrv: str = namesrv, sent: dict[str, Any] = sent
        ) -> dict[str, tuple[str, int]] | None:
            _, rows, _ = mqadmin(namesrv, f"msg track {sent['msgId']} --topic Fate")
            found = {row["group"]: (row["trackType"], row["queueOffset"]) for row in rows}
            ready = found.get("fate-other", ("", 0))[0] == "CONSUMED_BUT_FILTERED"
            return found if ready and found.get("fate-done", ("", 0))[0] == "CONSUMED" else None

        found = until(track, "the verdicts")
        by_place = mqadmin(namesrv, "msg track --topic Fate --queue 0 --offset 0")[1]
        assert {row["group"]: (row["trackType"], row["queueOffset"]) for row in by_place} == found
        wide = mqadmin(namesrv, f"msg track {sent['msgId']} --topic Fate --group fate-wide")[1]
        assert [row["trackType"] for row in wide] == ["CONSUME_BROADCASTING"]
        seen.append(found)
        for group in ("fate-done", "fate-other", "fate-wide"):
            peer_533.ask("stop", consumer=f"{group}@{namesrv}")
    assert seen[0] == seen[1]
    assert seen[0]["fate-gone"][0] == "NOT_ONLINE"
