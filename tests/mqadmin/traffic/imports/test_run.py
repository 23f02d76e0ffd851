from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client import Message, Producer
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.session import AdminSession, ClusterAccess
from mqadmin.admin.topic import TopicAdmin
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.query import Query
from mqadmin.message_row import MessageRow
from mqadmin.traffic.imports.run import ImportLibrary, ImportReport, ImportSource
from mqadmin.traffic.options import Defaults, ProduceOptions, Selection, SenderConfig
from mqadmin.traffic.stop import StopSignal

COUNT = 60


@pytest.fixture
def library(access: ClusterAccess, admin: AdminSession) -> ImportLibrary:
    return ImportLibrary(access, admin)


@pytest.fixture(scope="module")
def source_topic(embedded: BlockingEmbeddedBroker) -> str:
    """A topic with numbered messages; queue n has the numbers n, n + 4, …"""
    topic = "ImportSource"
    with AdminSession([embedded.namesrv_address], timeout_ms=30_000) as admin:
        topics = TopicAdmin(admin)
        topics.apply(topics.plan_create(topic, queues=4))
    with Producer("fill", embedded.namesrv_address) as producer:
        queues = sorted(producer.fetch_publish_queues(topic))
        for number in range(COUNT):
            message = Message(topic, b"%d" % number, keys=f"k{number}", properties={"own": "é"})
            producer.send(message, queue=queues[number % 4])
    return topic


@pytest.fixture
def store(embedded: BlockingEmbeddedBroker, store_path: Path) -> StoreDirectory:
    return StoreDirectory(store_path)


def source_of(
    library: ImportLibrary, store: StoreDirectory, topic: str, target: str
) -> ImportSource:
    wanted = Selection(topic=topic)

    def rows(start: int) -> Iterator[MessageRow]:
        found = message_rows(store, Query(topic=topic, from_offset=start, body="base64"))
        return (one for one in found if isinstance(one, MessageRow))

    return library.source(str(store.path), wanted, targets={"": target}, rows=rows)


def imported(
    library: ImportLibrary,
    source: ImportSource,
    ledger: Path,
    stop: StopSignal | None = None,
    failures: list[Any] | None = None,
    **options: Any,
) -> ImportReport:
    settings: dict[str, Any] = {
        "defaults": Defaults(ordered_by="queueId", keep_uniq_key=True, keep_queue_id=True),
        "sender": SenderConfig(ordered=True, batch=4),
    }
    return library.run(source, str(ledger)).run(
        ProduceOptions(**{**settings, **options}),
        stop or StopSignal(),
        on_failure=(failures if failures is not None else []).append,
        on_progress=lambda _: None,
    )


def stored(store: StoreDirectory, topic: str) -> list[MessageRow]:
    rows = message_rows(store, Query(topic=topic, body="text"))
    return [one for one in rows if isinstance(one, MessageRow)]


def test_messages_keep_queue_order_keys_properties_and_uniq_key(
    library: ImportLibrary,
    store: StoreDirectory,
    source_topic: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    target = new_topic("ImportedOrder")
    source = source_of(library, store, source_topic, target)
    report = imported(library, source, tmp_path / "ledger")
    assert (report.sent, report.failed, report.unknown, report.complete) == (COUNT, 0, 0, True)
    assert report.topics == {target: COUNT}

    def content(row: MessageRow) -> Any:
        own = (row.properties["own"], row.uniq_key)
        return (row.queue_id, row.queue_offset, row.body, row.keys, row.tags, own)

    before, after = stored(store, source_topic), stored(store, target)
    assert sorted(map(content, after)) == sorted(map(content, before))


def test_a_rerun_of_a_complete_import_sends_nothing_and_a_dry_run_counts(
    library: ImportLibrary,
    store: StoreDirectory,
    source_topic: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    target = new_topic("ImportedOnce")
    source = source_of(library, store, source_topic, target)
    dry = imported(library, source, tmp_path / "ledger", dry_run=True)
    assert (dry.topics, dry.sent) == ({target: COUNT}, 0)
    assert not (tmp_path / "ledger").exists()
    imported(library, source, tmp_path / "ledger")
    again = imported(library, source, tmp_path / "ledger")
    assert (again.sent, again.already, again.topics) == (0, COUNT, {})
    assert len(stored(store, target)) == COUNT


def test_a_run_killed_between_request_and_record_sends_nothing_twice(
    library: ImportLibrary,
    store: StoreDirectory,
    source_topic: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    """Messages whose response the ledger lacks are looked up."""
    target = new_topic("ImportedKilled")
    source = source_of(library, store, source_topic, target)
    ledger = tmp_path / "ledger"
    imported(library, source, ledger)
    lines = ledger.read_bytes().splitlines(keepends=True)
    sent = [line for line in lines if b'"state":"sent"' in line]
    for kept in (COUNT, COUNT // 2, 0):
        # every message was being sent, and the responses to the last ones were not recorded
        rest = [line for line in lines if line not in sent[kept:]]
        ledger.write_bytes(b"".join(rest))
        again = imported(library, source, ledger)
        assert (again.sent, again.already, again.found) == (0, kept, COUNT - kept)
    assert len(stored(store, target)) == COUNT


def test_an_interrupted_import_resumes_where_it_stopped(
    library: ImportLibrary,
    store: StoreDirectory,
    source_topic: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    target = new_topic("ImportedStop")
    stop = StopSignal()
    source = source_of(library, store, source_topic, target)
    run = library.run(source, str(tmp_path / "ledger"))

    def stop_early(produced: Any) -> None:
        if produced.sent >= 10:
            stop.request()

    report = run.run(
        ProduceOptions(
            defaults=Defaults(ordered_by="queueId", keep_uniq_key=True, keep_queue_id=True),
            sender=SenderConfig(ordered=True, max_count=4),
            rate=200.0,
        ),
        stop,
        on_failure=lambda _: None,
        on_progress=stop_early,
    )
    assert 10 <= report.sent < COUNT
    assert not report.complete
    rest = imported(library, source, tmp_path / "ledger")
    assert (rest.sent, rest.already) == (COUNT - report.sent, report.sent)
    after = sorted(
        (row.queue_id, row.queue_offset, int(row.body or "")) for row in stored(store, target)
    )
    assert [number for queue, _, number in after if queue == 0] == list(range(0, COUNT, 4))


def test_a_missing_topic_is_a_failure_of_each_message_that_a_rerun_repairs(
    library: ImportLibrary,
    store: StoreDirectory,
    source_topic: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    target = new_topic("ImportedFirst")
    export = tmp_path / "export.ndjson"
    lines = [
        f'{{"topic":"{topic}","body":"{n}","properties":{{"UNIQ_KEY":"u{n}"}}}}\n'
        for n, topic in enumerate(("first", "second", "first"))
    ]
    export.write_text("".join(lines))
    source = library.source(
        str(export), Selection(), targets={"first": target, "second": "Later"}, rows=None
    )
    failures: list[Any] = []
    plain = {"defaults": Defaults(keep_uniq_key=True), "sender": SenderConfig()}
    report = imported(library, source, tmp_path / "ledger", failures=failures, **plain)
    assert (report.sent, report.failed, [one.line for one in failures]) == (2, 1, [2])
    new_topic("Later")
    again = imported(library, source, tmp_path / "ledger", **plain)
    assert (again.sent, again.already, again.topics) == (1, 2, {"Later": 1})
