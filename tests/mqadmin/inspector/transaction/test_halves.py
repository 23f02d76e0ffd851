"""Open and discarded transactions, read from the files of a store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.message.properties import encode_properties
from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.transaction.halves import transaction_rows

BORN_MS = 1_700_000_000_000
HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"


@pytest.mark.parametrize("version", ["533", "498"])
def test_open_transactions_of_a_java_store_are_listed(
    golden_store: Callable[..., Path], golden_expect: Callable[[str], Any], version: str
) -> None:
    name = f"transaction-{version}"
    expect = golden_expect(name)
    rows = list(
        transaction_rows(StoreDirectory(golden_store(name) / "store"), now_ms=expect["dumpedAt"])
    )
    sent = {one["msgId"]: one for one in expect["sent"] if one.get("transaction") == "open"}
    assert {row.uniq_key for row in rows} == set(sent)
    assert max(row.checks for row in rows) >= 3
    for row in rows:
        assert (row.state, row.topic, row.producer_group) == ("open", "LedgerA", "PG_tx")
        assert row.keys == [sent[row.uniq_key or ""]["keys"]]
        assert row.age_ms == expect["dumpedAt"] - row.born_timestamp


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., StoreDirectory]:
    """``written((topic, body, properties), …)``: a store with these records in queue 0."""

    def write(*records: tuple[str, bytes, dict[str, str]]) -> StoreDirectory:
        root = tmp_path / "store"
        store = MessageStore(MessageStoreConfig(store_path_root_dir=str(root)))
        store.load()
        store.start()
        for topic, body, properties in records:
            inner = MessageExtBrokerInner(topic, 0, body, encode_properties(properties))
            inner.born_timestamp = BORN_MS
            store.put_message(inner)
        store.shutdown()
        return StoreDirectory(root)

    return write


def half(number: int, **properties: str) -> tuple[str, bytes, dict[str, str]]:
    own = {"UNIQ_KEY": f"U{number}", "PGROUP": "P", "REAL_TOPIC": "T", "REAL_QID": "2"}
    return HALF, b"x", {**own, **properties}


def test_halves_that_op_records_list_are_not_open(written: Callable[..., StoreDirectory]) -> None:
    store = written(
        *(half(number) for number in range(5)),
        (OP, b"1,3,", {"TAGS": "d"}),
        (OP, b"4", {"TAGS": "d"}),
        (OP, b"2,", {"TAGS": "other"}),
    )
    rows = list(transaction_rows(store, now_ms=BORN_MS + 60_000))
    assert [(row.uniq_key, row.queue_id, row.checks, row.age_ms) for row in rows] == [
        ("U0", 2, 0, 60_000),
        ("U2", 2, 0, 60_000),
    ]


@pytest.mark.parametrize("name", ["consumerOffset.json", "lmqConsumerOffset.json"])
def test_halves_below_the_committed_offset_are_decided(
    written: Callable[..., StoreDirectory], name: str
) -> None:
    store = written(*(half(number) for number in range(3)))
    assert store.root is not None
    folder = store.root / "config"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f'{{"offsetTable":{{"{HALF}@CID_RMQ_SYS_TRANS":{{0:2}}}}}}')
    assert [row.uniq_key for row in transaction_rows(store, now_ms=BORN_MS)] == ["U2"]


def test_discarded_transactions_follow_the_open_ones(
    written: Callable[..., StoreDirectory],
) -> None:
    _, body, properties = half(7, TRANSACTION_CHECK_TIMES="15", KEYS="a b")
    store = written(("TRANS_CHECK_MAX_TIME_TOPIC", body, properties), half(8))
    rows = list(transaction_rows(store, now_ms=BORN_MS))
    assert [(row.state, row.uniq_key, row.checks) for row in rows] == [
        ("open", "U8", 0),
        ("discarded", "U7", 15),
    ]
    assert rows[1].keys == ["a", "b"]


def test_a_store_without_transactions_has_none(written: Callable[..., StoreDirectory]) -> None:
    assert list(transaction_rows(written(("T", b"x", {})), now_ms=BORN_MS)) == []


def test_a_half_without_a_real_place_is_listed_without_it(
    written: Callable[..., StoreDirectory],
) -> None:
    (row,) = transaction_rows(written((HALF, b"x", {"REAL_QID": "x"})), now_ms=BORN_MS)
    assert (row.topic, row.queue_id, row.producer_group, row.keys) == (None, None, None, [])
