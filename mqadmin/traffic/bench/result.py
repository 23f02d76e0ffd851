"""The result of a measurement."""

import msgspec

from broker.common.clock import Clock
from mqadmin.traffic.bench.histogram import Bucket, Latencies, LatencyHistogram


class BenchResult(msgspec.Struct, kw_only=True, rename="camel"):
    """The measurement after the warm-up.

    ``messages`` that succeeded and their ``bodyBytes``; ``errors`` by message, at most 20;
    ``perSecond`` the number of messages of each second; ``lost`` of a roundtrip were sent and not
    received in time. ``latency`` in ms: of a send until its response, of consume from the store
    time (which depends on both clocks), of a roundtrip from the send to the listener.
    """

    mode: str
    topic: str
    body_size: int | None
    in_flight: int | None
    messages: int
    body_bytes: int
    seconds: float
    messages_per_second: float | None
    megabytes_per_second: float | None
    failed: int
    lost: int | None
    errors: dict[str, int]
    latency: Latencies
    distribution: list[Bucket]
    per_second: list[int]


MAX_ERRORS = 20
MAX_SECONDS = 24 * 3600


class Meter:
    """Counts messages and latencies once the warm-up is over."""

    def __init__(self, clock: Clock, warm_up_ms: int) -> None:
        self._clock = clock
        self._begin_ms = clock.monotonic_ms() + warm_up_ms
        self._last_ms: float | None = None
        self._first_ms: float | None = None
        self.histogram = LatencyHistogram()
        self.messages = 0
        self.body_bytes = 0
        self.failed = 0
        self.errors: dict[str, int] = {}
        self.per_second: list[int] = []

    def restart(self, warm_up_ms: int) -> None:
        """Start the warm-up now."""
        self._begin_ms = self._clock.monotonic_ms() + warm_up_ms

    def is_measured(self, sent_ms: float) -> bool:
        """Whether a message sent at ``sent_ms`` (monotonic) was sent after the warm-up."""
        return sent_ms >= self._begin_ms

    @property
    def elapsed_ms(self) -> float:
        """Measured time so far; negative during the warm-up."""
        return self._clock.monotonic_ms() - self._begin_ms

    def done(self, latency_ms: float | None, body_bytes: int, messages: int = 1) -> None:
        """Count messages that succeeded; ``latency_ms`` is that of one request."""
        elapsed_ms = self.elapsed_ms
        if elapsed_ms < 0:
            return
        if self._first_ms is None:
            self._first_ms = elapsed_ms
        self._last_ms = elapsed_ms
        self.messages += messages
        self.body_bytes += body_bytes
        if latency_ms is not None:
            self.histogram.record(int(latency_ms * 1000))
        second = int(elapsed_ms // 1000)
        if second < MAX_SECONDS:
            self.per_second.extend([0] * (second + 1 - len(self.per_second)))
            self.per_second[second] += messages

    def fail(self, error: Exception, messages: int = 1) -> None:
        """Count messages that failed, also during the warm-up."""
        self.failed += messages
        text = str(error)[:200]
        if text in self.errors or len(self.errors) < MAX_ERRORS:
            self.errors[text] = self.errors.get(text, 0) + messages

    def result(
        self,
        mode: str,
        topic: str,
        *,
        body_size: int | None = None,
        in_flight: int | None = None,
        lost: int | None = None,
        from_first: bool = False,
    ) -> BenchResult:
        """Return the result; ``from_first``: the time starts with the first message."""
        begin_ms = (self._first_ms or 0.0) if from_first else 0.0
        seconds = max(0.0, (self._last_ms or 0.0) - begin_ms) / 1000
        rate = self.messages / seconds if seconds else None
        return BenchResult(
            mode=mode,
            topic=topic,
            body_size=body_size,
            in_flight=in_flight,
            messages=self.messages,
            body_bytes=self.body_bytes,
            seconds=round(seconds, 3),
            messages_per_second=round(rate, 1) if rate else None,
            megabytes_per_second=round(self.body_bytes / seconds / 1e6, 3) if seconds else None,
            failed=self.failed,
            lost=lost,
            errors=self.errors,
            latency=self.histogram.latencies(),
            distribution=list(self.histogram.buckets()),
            per_second=self.per_second,
        )
