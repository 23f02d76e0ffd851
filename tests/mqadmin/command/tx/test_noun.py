"""``mqadmin tx``: lists of a store, changes that are asked for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.admin.result import Listing
from mqadmin.command.tx import noun

Run = Callable[..., Any]


@pytest.fixture
def store(golden_store: Callable[..., Path]) -> str:
    return str(golden_store("transaction-533") / "store")


def test_list_of_a_store_needs_no_cluster(mqadmin: Run, store: str) -> None:
    done = mqadmin("tx", "list", "--store", store, "-o", "json")
    assert done.status == 0
    rows = json.loads(done.out)["items"]
    assert {row["state"] for row in rows} == {"open"}
    assert {row["producerGroup"] for row in rows} == {"PG_tx"}


def test_show_finds_a_transaction_by_key_and_by_id(mqadmin: Run, store: str) -> None:
    done = mqadmin("tx", "show", "tx-open-2", "--store", store, "-o", "json")
    rows = json.loads(done.out)["items"]
    assert rows
    done = mqadmin("tx", "show", rows[0]["uniqKey"].lower(), "--store", store, "-o", "json")
    assert {row["uniqKey"] for row in json.loads(done.out)["items"]} == {rows[0]["uniqKey"]}


def test_a_transaction_that_is_decided_is_not_found(mqadmin: Run, store: str) -> None:
    done = mqadmin("tx", "show", "tx-commit-0", "--store", store)
    assert done.status == 1
    assert "no open or discarded transaction" in done.err


def test_a_table_shows_ages_with_their_unit_and_json_in_ms(mqadmin: Run, admin: Any) -> None:
    admin.answers["transaction.list"] = Listing(items=[{"topic": "T", "ageMs": 90_000}])
    head, row = mqadmin("tx", "list", "--columns", "topic,ageMs").out.splitlines()
    assert (head.split(), row.split()) == (["TOPIC", "AGE"], ["T", "90s"])
    assert json.loads(mqadmin("tx", "list", "-o", "json").out)["items"][0]["ageMs"] == 90_000


def test_list_of_running_brokers(mqadmin: Run, admin: Any) -> None:
    admin.answers["transaction.list"] = Listing(items=[])
    assert mqadmin("tx", "list").status == 0


@pytest.mark.parametrize(("words", "status"), [((), 5), (("--limit", "1"), 0)])
def test_only_a_limit_that_was_not_given_makes_a_list_partial(
    mqadmin: Run, admin: Any, words: tuple[str, ...], status: int
) -> None:
    admin.answers["transaction.list"] = Listing(items=[{"topic": "T"}], truncated=True)
    done = mqadmin("tx", "list", *words, "-o", "json")
    assert (done.status, json.loads(done.out)["truncated"]) == (status, True)
    assert "truncated" in done.err


@pytest.mark.parametrize(("words", "status"), [((), 5), (("--limit", "2"), 0)])
def test_a_limit_of_a_store_list_is_that_of_brokers(
    mqadmin: Run, store: str, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], status: int
) -> None:
    monkeypatch.setattr(noun, "DEFAULT_LIMIT", 2)
    done = mqadmin("tx", "list", "--store", store, *words, "-o", "json")
    assert (done.status, len(json.loads(done.out)["items"])) == (status, 2)


@pytest.mark.parametrize("verb", ["tx list", "delay levels", "delay pending"])
@pytest.mark.parametrize("option", ["--broker", "--cluster"])
def test_options_of_running_brokers_are_refused_for_a_store(
    mqadmin: Run, store: str, verb: str, option: str
) -> None:
    done = mqadmin(*verb.split(), "--store", store, option, "x")
    assert (done.status, done.out) == (2, "")
    assert f"{option} is an option for running brokers" in done.err
