"""``mqadmin delay``: levels and waiting messages of a store and of running brokers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.admin.result import Listing

Run = Callable[..., Any]


@pytest.fixture
def store(golden_store: Callable[..., Path]) -> str:
    return str(golden_store("delay-498") / "store")


def test_levels_of_a_store_need_no_cluster(mqadmin: Run, store: str) -> None:
    done = mqadmin("delay", "levels", "--store", store, "-o", "json")
    assert done.status == 0
    rows = json.loads(done.out)["items"]
    assert [row["delayMs"] for row in rows[:3]] == [1000, 5000, 10_000]


def test_waiting_messages_are_cut_at_the_limit(mqadmin: Run, store: str) -> None:
    done = mqadmin("delay", "pending", "--store", store, "--limit", "2", "-o", "json")
    document = json.loads(done.out)
    assert (done.status, len(document["items"]), document["truncated"]) == (0, 2, True)
    level = str(document["items"][0]["level"])
    done = mqadmin("delay", "pending", "--store", store, "--level", level, "-o", "json")
    assert {row["level"] for row in json.loads(done.out)["items"]} == {int(level)}


@pytest.mark.parametrize(("words", "status"), [((), 5), (("--limit", "1"), 0)])
def test_only_a_limit_that_was_not_given_makes_a_list_partial(
    mqadmin: Run, admin: Any, words: tuple[str, ...], status: int
) -> None:
    admin.answers["delay.pending"] = Listing(items=[{"topic": "T"}], truncated=True)
    done = mqadmin("delay", "pending", *words, "-o", "json")
    assert (done.status, json.loads(done.out)["truncated"]) == (status, True)


def test_running_brokers_are_asked_otherwise(mqadmin: Run, admin: Any) -> None:
    admin.answers["delay.levels"] = Listing(items=[])
    admin.answers["delay.pending"] = Listing(items=[])
    assert mqadmin("delay", "levels", "--broker", "broker-a").status == 0
    assert mqadmin("delay", "pending", "--topic", "t").status == 0
    name, (wanted,), options = admin.calls[-1]
    assert (name, wanted.topic, options["limit"]) == ("delay.pending", "t", 1_000)


def test_a_level_that_a_store_does_not_have_is_a_usage_error(mqadmin: Run, store: str) -> None:
    done = mqadmin("delay", "pending", "--store", store, "--level", "99")
    assert done.status == 2
    assert "--level: must be between 1 and 18, not 99" in done.err
