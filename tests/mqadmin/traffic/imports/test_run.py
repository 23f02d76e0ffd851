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


class Scene:
    """A store with a source topic, the cluster to import into, and the ledger of the imports."""

    def __init__(
        self,
        library: ImportLibrary,
        store: StoreDirectory,
        source_topic: str,
        new_topic: Callable[..., str],
        folder: Path,
    ) -> None:
        self.library = library
        self.store = store
        self.source_topic = source_topic
        self.new_topic = new_topic
        self.folder = folder
        self.ledger = folder / "ledger"

    def source_for(self, target: str) -> ImportSource:
        """Return the messages of the source topic, to be sent to ``target``."""
        wanted = Selection(topic=self.source_topic)

        def rows(start: int) -> Iterator[MessageRow]:
            query = Query(topic=self.source_topic, from_offset=start, body="base64")
            found = message_rows(self.store, query)
            return (one for one in found if isinstance(one, MessageRow))

        return self.library.source(str(self.store.path), wanted, targets={"": target}, rows=rows)

    def run(
        self,
        source: ImportSource,
        stop: StopSignal | None = None,
        failures: list[Any] | None = None,
        on_progress: Callable[[Any], None] = lambda _: None,
        **options: Any,
    ) -> ImportReport:
        """Import a source, ordered by queue and in batches unless ``options`` differ."""
        settings: dict[str, Any] = {
            "defaults": Defaults(ordered_by="queueId", keep_uniq_key=True, keep_queue_id=True),
            "sender": SenderConfig(ordered=True, batch=4),
        }
        return self.library.run(source, str(self.ledger)).run(
            ProduceOptions(**{**settings, **options}),
            stop or StopSignal(),
            on_failure=(failures if failures is not None else []).append,
            on_progress=on_progress,
        )

    def stored(self, topic: str) -> list[MessageRow]:
        """Return the messages of a topic."""
        rows = message_rows(self.store, Query(topic=topic, body="text"))
        return [one for one in rows if isinstance(one, MessageRow)]


@pytest.fixture
def scene(
    access: ClusterAccess,
    admin: AdminSession,
    store_path: Path,
    source_topic: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> Scene:
    library = ImportLibrary(access, admin)
    return Scene(library, StoreDirectory(store_path), source_topic, new_topic, tmp_path)


def test_messages_keep_queue_order_keys_properties_and_uniq_key(scene: Scene) -> None:
    target = scene.new_topic("ImportedOrder")
    source = scene.source_for(target)
    report = scene.run(source)
    assert (report.sent, report.failed, report.unknown, report.complete) == (COUNT, 0, 0, True)
    assert report.topics == {target: COUNT}

    def content(row: MessageRow) -> Any:
        own = (row.properties["own"], row.uniq_key)
        return (row.queue_id, row.queue_offset, row.body, row.keys, row.tags, own)

    before, after = scene.stored(scene.source_topic), scene.stored(target)
    assert sorted(map(content, after)) == sorted(map(content, before))


def test_a_rerun_of_a_complete_import_sends_nothing_and_a_dry_run_counts(scene: Scene) -> None:
    target = scene.new_topic("ImportedOnce")
    source = scene.source_for(target)
    dry = scene.run(source, dry_run=True)
    assert (dry.topics, dry.sent) == ({target: COUNT}, 0)
    assert not scene.ledger.exists()
    scene.run(source)
    again = scene.run(source)
    assert (again.sent, again.already, again.topics) == (0, COUNT, {})
    assert len(scene.stored(target)) == COUNT


def test_a_run_killed_between_request_and_record_sends_nothing_twice(scene: Scene) -> None:
    """Messages whose response the ledger lacks are looked up."""
    target = scene.new_topic("ImportedKilled")
    source = scene.source_for(target)
    ledger = scene.ledger
    scene.run(source)
    lines = ledger.read_bytes().splitlines(keepends=True)
    sent = [line for line in lines if b'"state":"sent"' in line]
    for kept in (COUNT, COUNT // 2, 0):
        # every message was being sent, and the responses to the last ones were not recorded
        rest = [line for line in lines if line not in sent[kept:]]
        ledger.write_bytes(b"".join(rest))
        again = scene.run(source)
        assert (again.sent, again.already, again.found) == (0, kept, COUNT - kept)
    assert len(scene.stored(target)) == COUNT


def test_an_interrupted_import_resumes_where_it_stopped(scene: Scene) -> None:
    target = scene.new_topic("ImportedStop")
    stop = StopSignal()
    source = scene.source_for(target)

    def stop_early(produced: Any) -> None:
        if produced.sent >= 10:
            stop.request()

    report = scene.run(
        source,
        stop,
        on_progress=stop_early,
        sender=SenderConfig(ordered=True, max_count=4),
        rate=200.0,
    )
    assert 10 <= report.sent < COUNT
    assert not report.complete
    rest = scene.run(source)
    assert (rest.sent, rest.already) == (COUNT - report.sent, report.sent)
    after = sorted(
        (row.queue_id, row.queue_offset, int(row.body or "")) for row in scene.stored(target)
    )
    assert [number for queue, _, number in after if queue == 0] == list(range(0, COUNT, 4))


def test_a_missing_topic_is_a_failure_of_each_message_that_a_rerun_repairs(scene: Scene) -> None:
    target = scene.new_topic("ImportedFirst")
    export = scene.folder / "export.ndjson"
    lines = [
        f'{{"topic":"{topic}","body":"{n}","properties":{{"UNIQ_KEY":"u{n}"}}}}\n'
        for n, topic in enumerate(("first", "second", "first"))
    ]
    export.write_text("".join(lines))
    source = scene.library.source(
        str(export), Selection(), targets={"first": target, "second": "Later"}, rows=None
    )
    failures: list[Any] = []
    plain = {"defaults": Defaults(keep_uniq_key=True), "sender": SenderConfig()}
    report = scene.run(source, failures=failures, **plain)
    assert (report.sent, report.failed, [one.line for one in failures]) == (2, 1, [2])
    scene.new_topic("Later")
    again = scene.run(source, **plain)
    assert (again.sent, again.already, again.topics) == (1, 2, {"Later": 1})
