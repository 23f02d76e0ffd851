"""``mqadmin tx``: lists of a store, changes that are asked for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.admin.result import Listing

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


def test_list_of_running_brokers(mqadmin: Run, admin: Any) -> None:
    admin.answers["transaction.list"] = Listing(items=[])
    assert mqadmin("tx", "list").status == 0
