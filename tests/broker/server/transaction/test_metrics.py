"""transactionMetrics: undecided half messages of each topic, written as Java writes them."""

import json
from pathlib import Path

from broker.common.clock import ManualClock
from broker.server.transaction.metrics import TransactionMetrics

GOLDEN = (
    '{"dataVersion":{"counter":41,"stateVersion":0,"timestamp":1795181411191},'
    '"transactionCount":{"LedgerA":{"count":5,"timeStamp":1795181411191}}}'
)


def counts(ledger) -> dict[str, int]:
    return {topic: each.count for topic, each in ledger.service.metrics.counts.topics.items()}


def test_a_half_message_counts_until_it_is_decided(ledger) -> None:
    first, second, _ = (ledger.begin() for _ in range(3))
    assert counts(ledger) == {"Orders": 3}
    ledger.commit(first)
    ledger.rollback(second)
    assert counts(ledger) == {"Orders": 1}


def test_a_file_that_java_wrote_is_continued(desk) -> None:
    path = Path(desk.store.config.root) / "config" / "transactionMetrics"
    path.parent.mkdir(exist_ok=True)
    path.write_text(GOLDEN)
    clock = ManualClock(1_795_181_411_191)
    metrics = TransactionMetrics(desk.store, clock)
    metrics.load()
    assert metrics.snapshot() is None
    metrics.counts.changed = True
    job = metrics.snapshot()
    assert job is not None
    job()
    assert path.read_text() == GOLDEN
    metrics.add("LedgerA", -1)
    job = metrics.snapshot()
    assert job is not None
    job()
    content = json.loads(path.read_text())
    assert content["transactionCount"]["LedgerA"]["count"] == 4
    assert content["dataVersion"]["counter"] == 42


def test_a_malformed_file_starts_the_counts_at_0(desk, caplog) -> None:
    path = Path(desk.store.config.root) / "config" / "transactionMetrics"
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"transactionCount":{"A":1}}')
    metrics = TransactionMetrics(desk.store, ManualClock())
    metrics.load()
    assert metrics.counts.topics == {}
    assert "transactionMetrics: A" in caplog.text.replace("'", "")
