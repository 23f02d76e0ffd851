"""Imports: the messages of a store or of an export, sent once, with a ledger for reruns."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack

import msgspec

from broker.common.clock import Clock, SystemClock
from mqadmin.admin.connect.client_config import client_config
from mqadmin.admin.dlq.in_doubt import find_sent
from mqadmin.admin.dlq.ledger import Entry
from mqadmin.admin.session import AdminSession, ClusterAccess
from mqadmin.message_row import MessageRow
from mqadmin.traffic.imports.import_ledger import ImportJournal, ImportLedger
from mqadmin.traffic.imports.messages import TopicMap, exported_messages, store_messages
from mqadmin.traffic.input import Found
from mqadmin.traffic.options import ProduceOptions, Selection
from mqadmin.traffic.produce import LineFailure, ProduceReport, ProduceRun, Source
from mqadmin.traffic.stop import StopSignal

LOOKUP_MS = 10_000
"""Deadline of the lookup of one message in doubt; the import itself has none."""


class ImportReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of an import.

    ``topics``: target topic → messages sent by this run, or that a dry run would send. ``already``
    were sent by earlier runs, ``found`` ones had been in doubt and a broker has them. ``excluded``
    messages are of topics that belong to brokers and groups. ``unknown`` messages got no response,
    and ``notTried`` ones followed a failure; a rerun looks the former up and sends the latter.
    ``complete``: the source was read to its end. ``line`` of a failure is the physical offset in a
    store.
    """

    source: str
    ledger: str
    topics: dict[str, int]
    sent: int
    already: int
    found: int
    excluded: int
    failed: int
    not_tried: int
    unknown: int
    body_bytes: int
    seconds: float
    messages_per_second: float | None
    complete: bool
    dry_run: bool
    failures: list[LineFailure]


class ImportSource(msgspec.Struct, frozen=True, kw_only=True):
    """A source: its path, and either ``rows`` (a store, read from a physical offset) or the file.

    ``scope`` describes source, filters, targets and cluster; a ledger belongs to one scope.
    """

    path: str
    scope: str
    topics: TopicMap
    selection: Selection = Selection()
    rows: Callable[[int], Iterator[MessageRow]] | None = None


class ImportRun:
    """One run over a source; ``report`` is the result so far."""

    def __init__(
        self,
        access: ClusterAccess,
        admin: AdminSession,
        source: ImportSource,
        ledger_path: str,
        clock: Clock | None = None,
    ) -> None:
        self._access = access
        self._admin = admin
        self._source = source
        self._clock = clock or SystemClock()
        self._ledger = ImportLedger(ledger_path)
        self._journal: ImportJournal | None = None
        self._opened = ExitStack()
        self._asking: AdminSession | None = None  # for lookups, opened by the first one
        self._produced = ProduceReport(topics={})

    def run(
        self,
        options: ProduceOptions,
        stop: StopSignal,
        *,
        on_failure: Callable[[LineFailure], None],
        on_progress: Callable[[ProduceReport], None],
    ) -> ImportReport:
        """Send the messages, or count them in a dry run, which reads the ledger and writes nothing.

        ConfigError for a ledger of another import, and while another process writes it.
        """
        with self._opened as opened:
            if options.dry_run:
                self._ledger.read()
            else:
                opened.enter_context(self._ledger)
            self._ledger.check_scope(self._source.scope)
            journal = ImportJournal(
                self._ledger, self._clock, self._lookup, dry_run=options.dry_run
            )
            journal.begin(self._source.scope)
            self._journal = journal
            messages = self._messages(opened)
            source = Source(self._source.path, io.BytesIO(), messages)
            run = ProduceRun(
                client_config(self._access),
                options,
                stop,
                on_failure=on_failure,
                on_progress=lambda _: on_progress(run.report),
                journal=journal,
            )
            self._produced = run.report
            run.run([source])
        return self.report

    def _messages(self, opened: ExitStack) -> Iterator[Found]:
        start = max(0, self._ledger.first_needed)
        if self._source.rows is not None:
            return store_messages(self._source.rows(start), self._source.topics)
        file = open(self._source.path, "rb")  # noqa: SIM115 - closed by the run
        opened.enter_context(file)
        return exported_messages(file, self._source.selection, self._source.topics, from_line=start)

    def _lookup(self, entry: Entry, uniq_key: str, original_id: str | None) -> Entry | None:
        if self._asking is None:
            self._asking = self._opened.enter_context(self._admin.without_deadline(LOOKUP_MS))
        return find_sent(
            self._asking,
            entry,
            uniq_key,
            original_id=original_id,
            now_ms=self._clock.now_ms(),
        )

    @property
    def report(self) -> ImportReport:
        """The result so far; ``complete`` only if the source was read to its end."""
        produced, journal = self._produced, self._journal
        return ImportReport(
            source=self._source.path,
            ledger=self._ledger.path,
            topics=produced.topics,
            sent=produced.sent,
            already=journal.already if journal else 0,
            found=journal.found if journal else 0,
            excluded=sum(self._source.topics.excluded.values()),
            failed=produced.failed,
            not_tried=produced.not_tried,
            unknown=journal.open_count if journal else 0,
            body_bytes=produced.body_bytes,
            seconds=produced.seconds,
            messages_per_second=produced.messages_per_second,
            complete=produced.resume_line is None,
            dry_run=produced.dry_run,
            failures=produced.failures,
        )


class ImportLibrary:
    """Imports into one cluster."""

    def __init__(self, access: ClusterAccess, admin: AdminSession) -> None:
        self._access = access
        self._admin = admin

    def stop_signal(self) -> StopSignal:
        """Return a context in which signals end a run in order."""
        return StopSignal()

    def source(
        self,
        path: str,
        selection: Selection,
        *,
        targets: Mapping[str, str],
        rows: Callable[[int], Iterator[MessageRow]] | None,
    ) -> ImportSource:
        """Describe a source; ``targets`` are old topic → new topic, "" for every other one.

        The scope contains the name servers, because a ledger belongs to one cluster. It does not
        contain the end of the time window: a rerun may add later messages.
        """
        others = {old: new for old, new in targets.items() if old}
        scope = {
            "source": path,
            "topic": selection.topic,
            "queue": selection.queue_id,
            "key": selection.key,
            "since": selection.begin_ms and f"@{selection.begin_ms}",
            "to": " ".join(f"{old}={new}" if old else new for old, new in sorted(targets.items())),
            "namesrv": ";".join(sorted(self._admin.namesrv_addresses)),
        }
        words = [f"{name} {value}" for name, value in scope.items() if value not in (None, "")]
        return ImportSource(
            path=path,
            scope=", ".join(words),
            topics=TopicMap(asked=selection.topic, default=targets.get(""), by_topic=others),
            selection=selection,
            rows=rows,
        )

    def targets(self, topics: Sequence[str]) -> list[str]:
        """Return the addresses of the masters with writable queues of ``topics``.

        Of every master if no topic is named.
        """
        if not topics:
            return [target.address for target in self._admin.topology.masters()]
        found = set()
        for topic in topics:
            route = self._admin.routes.find(topic)
            if route is not None:
                names = {queue.broker_name for queue in route.publish_queues()}
                found |= {address for one in names if (address := route.master(one)) is not None}
        return sorted(found)

    def run(self, source: ImportSource, ledger: str) -> ImportRun:
        """Return a run; nothing is read or written yet."""
        return ImportRun(self._access, self._admin, source, ledger)
