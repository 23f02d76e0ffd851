"""ClientMetrics: counts and latencies of a client for Prometheus, opt-in.

::

    metrics = ClientMetrics()                     # or ClientMetrics(registry)
    producer.send_hooks.append(metrics.sent)
    consumer.consume_hooks.append(metrics.consumed)
    prometheus_client.start_http_server(9100)
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.registry import REGISTRY

from broker.client.hooks.events import ConsumeEvent, SendEvent

LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ClientMetrics:
    """The metrics of all clients of a process, registered at ``registry``."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._sends = Counter(
            "rocketmq_client_sends",
            "Finished sends by outcome.",
            ("topic", "outcome"),
            registry=registry,
        )
        self._send_seconds = Histogram(
            "rocketmq_client_send_seconds",
            "Duration of sends, all attempts included.",
            ("topic",),
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self._consumed = Counter(
            "rocketmq_client_consumed_messages",
            "Messages passed to listeners by outcome.",
            ("group", "topic", "outcome"),
            registry=registry,
        )
        self._consume_seconds = Histogram(
            "rocketmq_client_consume_seconds",
            "Duration of listener calls.",
            ("group", "topic"),
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self._in_flight = Gauge(
            "rocketmq_client_in_flight",
            "Asynchronous sends in flight.",
            ("group",),
            registry=registry,
        )
        self._in_flight_bytes = Gauge(
            "rocketmq_client_in_flight_bytes",
            "Bytes of asynchronous sends in flight.",
            ("group",),
            registry=registry,
        )
        self._cached = Gauge(
            "rocketmq_client_cached_messages",
            "Messages pulled and not finished.",
            ("group",),
            registry=registry,
        )
        self._lag = Gauge(
            "rocketmq_client_lag",
            "Messages of owned queues after the last one pulled or finished.",
            ("group",),
            registry=registry,
        )

    def sent(self, event: SendEvent) -> None:
        """Count a send (a send hook)."""
        outcome = event.result.send_status.value if event.result else type(event.error).__name__
        self._sends.labels(event.topic, outcome).inc()
        self._send_seconds.labels(event.topic).observe(event.cost_ms / 1000)

    def consumed(self, event: ConsumeEvent) -> None:
        """Count a listener call (a consume hook)."""
        if event.before:
            return
        topic = event.queue.topic
        outcome = "success" if event.success else "failure"
        self._consumed.labels(event.group, topic, outcome).inc(len(event.messages))
        self._consume_seconds.labels(event.group, topic).observe(event.cost_ms / 1000)

    def watch_producer(self, group: str, count: Callable[[], int], size: Callable[[], int]) -> None:
        """Report sends in flight: ``count`` and ``size`` are asked when metrics are read."""
        self._in_flight.labels(group).set_function(count)
        self._in_flight_bytes.labels(group).set_function(size)

    def watch_consumer(self, group: str, cached: Callable[[], int], lag: Callable[[], int]) -> None:
        """Report cached messages and lag: both are asked when metrics are read."""
        self._cached.labels(group).set_function(cached)
        self._lag.labels(group).set_function(lag)
