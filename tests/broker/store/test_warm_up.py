"""After the warm-up, the start of a broker after a power cut compiles nothing."""

import time
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="the loops need the extra 'fast'")

from broker.store.format.vectorized import kernels
from broker.store.recovery.log_scan import LogScan
from broker.store.results import MessageExtBrokerInner
from broker.store.warm_up import MESSAGES, recover_small_store
from broker.store.writer import StoreWriter


@pytest.fixture
def always_vectorized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery uses the loops for a log of any length; the warm-up sets the same."""
    monkeypatch.setattr(LogScan, "vectorized_from_bytes", 0)


def compiled_types() -> dict[str, int]:
    """Number of types of arguments that each loop was compiled for."""
    loops = {name: getattr(kernels, name) for name in dir(kernels) if not name.startswith("_")}
    return {
        name: len(loop.signatures) for name, loop in loops.items() if hasattr(loop, "signatures")
    }


def test_index_entries_are_put_whole_and_in_parts_on_a_slow_machine(monkeypatch) -> None:
    """Both are types of their own; index files older than the checkpoint are not filled again."""
    put, put_message = kernels.put_entries, StoreWriter.put_message
    whole = set()

    def recorded(view, shape, header, entries):
        whole.add(entries.flags.c_contiguous)
        return put(view, shape, header, entries)

    def slow(self, inner):
        time.sleep(0.002)
        return put_message(self, inner)

    monkeypatch.setattr(kernels, "put_entries", recorded)
    monkeypatch.setattr(StoreWriter, "put_message", slow)
    assert recover_small_store() == MESSAGES
    assert whole == {True, False}


def test_recovery_adds_no_types(always_vectorized, stores) -> None:
    assert recover_small_store() == MESSAGES
    before = compiled_types()
    assert {name for name, types in before.items() if types} >= {
        "fill",
        "hash_slices",
        "equal_slices",
        "key_slices",
        "put_entries",
    }
    # Index files of 4,000 entries and log files of 1 MiB: runs end at the end of files.
    config = stores.config(mapped_file_size_commit_log=1 << 20)
    store = stores.start(config)
    for number in range(6_000):
        properties = b"UNIQ_KEY\x01%d\x02KEYS\x01k%d\x02" % (number, number % 7)
        store.put_message(MessageExtBrokerInner("Orders", number % 3, b"body", properties))
    stores.kill(store)
    Path(config.root, "abort").write_bytes(b"1\n")
    report = stores.load(config).report
    assert report.dispatched == 6_000
    assert compiled_types() == before
