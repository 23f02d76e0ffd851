"""Producing from a stream: every line gets an outcome, and a run can be resumed by line number."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from select import select
from time import sleep
from typing import Final, Protocol

import msgspec

from broker.client import ClientConfig
from broker.common.clock import Clock, SystemClock
from broker.errors import ConfigError, RocketMQError
from mqadmin.admin.connect.client_config import client_config
from mqadmin.admin.failure import describe
from mqadmin.admin.session import ClusterAccess
from mqadmin.traffic.input import FORMATS, Found, Line, Pause, Stream, read_lines
from mqadmin.traffic.options import ProduceOptions
from mqadmin.traffic.outgoing import BadInput, InputMessage, Outgoing, outgoing
from mqadmin.traffic.pace import Pace
from mqadmin.traffic.sender import LANE_ATTEMPTS, Outcome, Sender
from mqadmin.traffic.stop import StopSignal

GROUP_COUNT: Final = 64  # messages handed to the loop at once
GROUP_BYTES: Final = 256 * 1024
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
FAILURES_KEPT: Final = 1_000  # in the report; every one is also passed to ``on_failure``
SLICE_S: Final = 0.02
LAST_WAIT_S: Final = 1.0  # beyond the timeout of a message, for those in flight at the end


class LineFailure(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a line was not sent. ``kind``: ``input``, or as in the error of a target."""

    source: str
    line: int
    kind: str
    message: str
    hint: str = ""
    address: str | None = None
    response_code: int | None = None


class ProduceReport(msgspec.Struct, kw_only=True, rename="camel"):
    """The result of a run. ``notTried`` messages were read, but not sent after a failure.

    ``unknown`` messages got no response before the run ended: they may be stored. ``resumeSource``
    and ``resumeLine``: rerun from there to send the rest, None when the input was read to its end.
    """

    topics: dict[str, int]
    sent: int = 0
    failed: int = 0
    not_tried: int = 0
    unknown: int = 0
    body_bytes: int = 0
    seconds: float = 0.0
    messages_per_second: float | None = None
    resume_source: str | None = None
    resume_line: int | None = None
    dry_run: bool = False
    failures: list[LineFailure] = []


class LineSent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The place of one sent message (``--results``)."""

    source: str
    line: int
    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    offset_msg_id: str
    uniq_key: str
    send_status: str


class Source(msgspec.Struct, frozen=True):
    """One input: its name for messages, and its bytes.

    ``messages`` replaces the parser of the bytes: the messages are read already.
    """

    name: str
    stream: Stream
    messages: Iterator[Found] | None = None


class Journal(Protocol):
    """A record of the messages of a run, so that another run does not send them again."""

    def skips(self, found: InputMessage) -> bool:
        """Return whether a message needs no sending."""
        ...

    def refused(self, found: InputMessage | BadInput) -> None:
        """Record a message that is not sent."""
        ...

    def opened(self, one: Outgoing) -> None:
        """Record a message before it is sent."""
        ...

    def closed(self, outcome: Outcome) -> None:
        """Record an outcome."""
        ...


class NoJournal:
    """Records nothing."""

    def skips(self, found: InputMessage) -> bool:
        """Return False: every message is sent."""
        return False

    def refused(self, found: InputMessage | BadInput) -> None:
        """Do nothing."""

    def opened(self, one: Outgoing) -> None:
        """Do nothing."""

    def closed(self, outcome: Outcome) -> None:
        """Do nothing."""


def _ignore(_: object) -> None:
    pass


class ProduceRun:
    """Sends the messages of sources; ``report`` is complete at any moment.

    ``on_failure`` gets each failed line, ``on_progress`` the input bytes that need no more work:
    lines that were sent, failed or skipped.
    """

    def __init__(
        self,
        client: ClientConfig,
        options: ProduceOptions,
        stop: StopSignal,
        *,
        on_failure: Callable[[LineFailure], None] = _ignore,
        on_progress: Callable[[int], None] = _ignore,
        clock: Clock | None = None,
        journal: Journal | None = None,
    ) -> None:
        self._journal = journal or NoJournal()
        self.report = ProduceReport(topics={}, dry_run=options.dry_run)
        self._options = options
        self._stop = stop
        self._on_failure = on_failure
        self._sent: list[LineSent] = []
        self._on_progress = on_progress
        self._clock = clock or SystemClock()
        self._pace = Pace(options.rate, self._clock)
        self._sender = Sender(client, options.sender)
        self._group_limit = max(GROUP_COUNT, options.sender.batch)
        if options.rate is not None:
            self._group_limit = max(1, min(self._group_limit, int(options.rate / 20)))
        self._group: list[Outgoing] = []
        self._group_bytes = 0
        self._done_bytes = 0
        self._source = ""
        self._place = _Place(options.from_line)
        self._complete = False
        self._wait_s = options.sender.timeout_ms / 1000 + LAST_WAIT_S
        if options.sender.ordered:  # a lane tries again, one message after the other
            self._wait_s *= LANE_ATTEMPTS

    # ---- the run

    def run(self, sources: Iterable[Source]) -> ProduceReport:
        """Send every source; see :meth:`steps`."""
        for _ in self.steps(sources):
            pass
        return self.report

    def steps(self, sources: Iterable[Source]) -> Iterator[list[LineSent]]:
        """Send every source and yield the places of messages as responses arrive.

        KeyboardInterrupt is not raised: ``stop`` and the report show it. A generator that is closed
        waits for the messages in flight. RocketMQError before anything was sent: no such topic, no
        name server, an input of another format.
        """
        began_ms = self._clock.monotonic_ms()
        self._complete = False
        try:
            with self._sender:
                if self._options.defaults.topic:
                    self._check(self._options.defaults.topic)
                    began_ms = self._clock.monotonic_ms()
                yield from self._all(sources)
        except KeyboardInterrupt:
            pass
        finally:
            self._conclude(began_ms)

    def _conclude(self, began_ms: float) -> None:
        report = self.report
        report.seconds = round((self._clock.monotonic_ms() - began_ms) / 1000, 3)
        report.unknown = len(self._place.open)
        if report.sent and report.seconds:
            report.messages_per_second = round(report.sent / report.seconds, 1)
        if not self._complete and not report.dry_run:
            report.resume_source, report.resume_line = self._place.resume(
                interrupted=self._stop.requested, ordered=self._options.sender.ordered
            )

    def _check(self, topic: str) -> None:
        with self._stop.interruptible():
            self._sender.check_topic(topic)

    def _all(self, sources: Iterable[Source]) -> Iterator[list[LineSent]]:
        from_line = self._options.from_line
        try:
            for source in sources:
                self._source = source.name
                self._place.begin(source.name, from_line)
                yield from self._one(source, from_line)
                if self._ended():
                    break
                from_line = 1
            self._complete = not self._ended()
        except KeyboardInterrupt:
            pass
        finally:  # also of a generator that is closed, or of an input that ends with an error
            self._group.clear()
            self._sender.wait(self._last_wait_s)
            self._collect()
        yield self._take_sent()

    @property
    def _last_wait_s(self) -> float:
        """How long messages in flight may take at the end."""
        limit_ms = self._options.interrupt_wait_ms
        if not self._stop.requested or limit_ms is None:
            return self._wait_s
        return min(self._wait_s, limit_ms / 1000)

    def _ended(self) -> bool:
        return self._stop.requested or self._limit_reached()

    def _take_sent(self) -> list[LineSent]:
        found, self._sent = self._sent, []
        return found

    def _one(self, source: Source, from_line: int) -> Iterator[list[LineSent]]:
        if source.messages is not None:
            messages = self._interruptible(source.messages)
        else:
            lines = self._lines(source.stream)
            messages = FORMATS[self._options.format](lines, from_line)
        for found in messages:
            if isinstance(found, Pause):
                self._flush()
                self._await_outcomes(source.stream)
            else:
                self._take(found)
            if self._ended():
                if not self._stop.requested:
                    self._flush()  # the lines before the one that ended the run
                return
            if self._sent:
                yield self._take_sent()
        self._flush()
        with self._stop.interruptible():  # outcomes belong to the present source
            self._sender.wait(self._wait_s)
        self._collect()
        yield self._take_sent()

    def _interruptible(self, messages: Iterator[Found]) -> Iterator[Found]:
        """Let a signal end the search for the next message, which may be far."""
        while True:
            with self._stop.interruptible():
                found = next(messages, None)
            if found is None:
                return
            self._on_progress(self._done_bytes)
            yield found

    def _await_outcomes(self, stream: Stream) -> None:
        """Wait for outcomes while no input arrives, so that they are reported before the next."""
        while self._sender.open_count and not self._stop.requested and not is_readable(stream):
            self._sender.wait(SLICE_S)
        self._collect()

    def _lines(self, stream: Stream) -> Iterator[Line]:
        def read() -> bytes:
            with self._stop.interruptible():
                block = stream.read1(64 * 1024)
            self._on_progress(self._done_bytes)
            return block

        return self._counted(read_lines(stream, read=read))

    def _counted(self, lines: Iterator[Line]) -> Iterator[Line]:
        """Count the lines before the first one of the run as done."""
        first_line = self._place.next_line
        for line in lines:
            if line.number < first_line and line.raw is not None:
                self._done_bytes += len(line.raw) + 1
            yield line

    def _limit_reached(self) -> bool:
        limit = self._options.max_errors
        return (bool(limit) and self.report.failed >= limit) or bool(self.report.not_tried)

    def _take(self, found: Found) -> None:
        if isinstance(found, BadInput):
            self._bad(found, found.reason, found.hint)
            return
        assert isinstance(found, InputMessage), "neither a pause nor a bad line"
        if self._journal.skips(found):
            return
        try:
            one = outgoing(found, self._options.defaults)
            self._check_body(one)
        except ConfigError as error:
            self._bad(found, error.message, error.hint)
            return
        topic = one.message.topic
        if topic not in self.report.topics:
            try:
                self._check(topic)
            except RocketMQError as error:
                if not self.report.topics:
                    raise
                self._place.passed(one.line)
                self._flush()  # the journal records positions in order
                self._journal.refused(found)
                self._fail(one.line, error)
                return
            self.report.topics.setdefault(topic, 0)
        if self._options.dry_run:
            self.report.topics[topic] += 1
            self.report.body_bytes += len(one.message.body)
            return
        self._group.append(one)
        self._group_bytes += one.size
        if len(self._group) >= self._group_limit or self._group_bytes >= GROUP_BYTES:
            self._flush()

    def _check_body(self, one: Outgoing) -> None:
        size = len(one.message.body)
        if not size:
            raise ConfigError("the body is empty", "brokers refuse an empty one")
        if size > MAX_BODY_BYTES:
            raise ConfigError(f"the body has {size} bytes, the limit is {MAX_BODY_BYTES}")

    def _flush(self) -> None:
        """Hand the group to the sender, at the rate; an interrupt drops the group."""
        group = self._group
        if not group:
            return
        with self._stop.interruptible():
            delay_s = self._pace.delay_s(len(group))
            if delay_s:
                sleep(delay_s)
            self._sender.wait_capacity(group)
        for one in group:
            self._journal.opened(one)
        self._sender.submit(group)
        for one in group:
            self._place.opened(one.line)
        group.clear()
        self._group_bytes = 0
        self._collect()

    # ---- outcomes

    def _collect(self) -> None:
        for outcome in self._sender.outcomes():
            self._place.closed(outcome)
            self._journal.closed(outcome)
            self._done_bytes += len(outcome.sent.raw) + 1
            self._record(outcome)
        self._on_progress(self._done_bytes)

    def _record(self, outcome: Outcome) -> None:
        report, one, result = self.report, outcome.sent, outcome.result
        if result is not None:
            report.sent += 1
            report.topics[one.message.topic] = report.topics.get(one.message.topic, 0) + 1
            report.body_bytes += len(one.message.body)
            self._sent.append(
                LineSent(
                    source=self._source,
                    line=one.line,
                    topic=one.message.topic,
                    broker_name=result.message_queue.broker_name,
                    queue_id=result.message_queue.queue_id,
                    queue_offset=result.queue_offset,
                    offset_msg_id=result.offset_msg_id,
                    uniq_key=result.msg_id,
                    send_status=result.send_status.value,
                )
            )
        elif outcome.error is not None:
            self._fail(one.line, outcome.error)
        else:
            report.not_tried += 1

    def _bad(self, found: InputMessage | BadInput, reason: str, hint: str) -> None:
        self._flush()  # the journal records positions in order
        self._place.passed(found.line)
        self._journal.refused(found)
        self._done_bytes += len(found.raw) + 1
        self._failed(
            LineFailure(
                source=self._source, line=found.line, kind="input", message=reason, hint=hint
            )
        )

    def _fail(self, line: int, error: RocketMQError) -> None:
        target = describe(error)
        self._failed(
            LineFailure(
                source=self._source,
                line=line,
                kind=target.kind,
                message=target.message,
                hint=target.hint,
                address=target.address,
                response_code=target.response_code,
            )
        )

    def _failed(self, failure: LineFailure) -> None:
        self.report.failed += 1
        if len(self.report.failures) < FAILURES_KEPT:
            self.report.failures.append(failure)
        self._on_failure(failure)


class ProduceLibrary:
    """Produce to one cluster."""

    def __init__(self, access: ClusterAccess) -> None:
        self.client = client_config(access)

    def stop_signal(self) -> StopSignal:
        """Return a context in which signals end a run in order."""
        return StopSignal()

    def produce(
        self,
        stop: StopSignal,
        options: ProduceOptions,
        *,
        on_failure: Callable[[LineFailure], None],
        on_progress: Callable[[int], None],
    ) -> ProduceRun:
        """Return a run that sends the messages of its sources."""
        return ProduceRun(
            self.client, options, stop, on_failure=on_failure, on_progress=on_progress
        )

    def sources(self, paths: Sequence[str], stdin: Stream) -> Iterator[Source]:
        """Open the inputs one after the other; ``-`` is stdin."""
        for path in paths:
            if path == "-":
                yield Source("stdin", stdin)
            else:
                with open(path, "rb") as file:
                    yield Source(path, file)


def is_readable(stream: Stream) -> bool:
    """Return whether a read returns at once; True for a stream that is not a file or pipe."""
    try:
        descriptor = stream.fileno()
        return bool(select([descriptor], [], [], 0)[0])
    except (OSError, ValueError):  # bytes in memory, or a descriptor that select() refuses
        return True


class _Place:
    """Which lines of the present source have outcomes."""

    def __init__(self, from_line: int) -> None:
        self.source = ""
        self.next_line = from_line
        self.open: dict[int, None] = {}
        self._last_sent = from_line - 1
        self._first_not_sent: int | None = None

    def begin(self, source: str, from_line: int) -> None:
        """Start with another source, whose predecessors have been sent."""
        self.source = source
        self.next_line = from_line
        self._last_sent = from_line - 1

    def passed(self, line: int) -> None:
        """Count a line that is not sent and was reported."""
        self.next_line = line + 1

    def opened(self, line: int) -> None:
        """Count a line that is being sent."""
        self.open[line] = None
        self.next_line = line + 1

    def closed(self, outcome: Outcome) -> None:
        """Count an outcome."""
        line = outcome.sent.line
        self.open.pop(line, None)
        if outcome.result is not None:
            self._last_sent = max(self._last_sent, line)
        elif self._first_not_sent is None or line < self._first_not_sent:
            self._first_not_sent = line

    def resume(self, *, interrupted: bool, ordered: bool) -> tuple[str, int]:
        """Return the source and the line to resume at.

        Ordered: the first line that was not sent, so that nothing overtakes it. After an interrupt
        the first line not read, because failed ones were reported; after too many failures the
        line after the last sent one, so that the failures at the end are tried again. A line
        without a response is always included.
        """
        if ordered and self._first_not_sent is not None:
            line = self._first_not_sent
        else:
            line = self.next_line if interrupted else self._last_sent + 1
        return self.source, min([line, *self.open])
