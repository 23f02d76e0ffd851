"""MetricsExporter: answers the scrapes of Prometheus over HTTP.

The samples are calculated on the event loop, slice by slice; their text is written in a thread.
Loaded only with ``metricsExporterType=PROM``. Every path answers, as a Java broker's do.

**Source:** RocketMQ BrokerMetricsManager (PrometheusHttpServer).
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.core import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from broker.common.address import format_address
from broker.errors import ConnectError
from broker.server.context import BrokerContext
from broker.server.metrics.families import COUNTER, Sample, all_samples, lag
from broker.server.metrics.settings import parse_labels
from broker.server.slices import collect_in_slices

log = logging.getLogger("broker.server")

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PER_SLICE: Final = 200
"""Series per iteration of the event loop."""

LAG_PER_SLICE: Final = 1
"""Groups and topics per iteration: each reads all queues of a topic."""

HEAD_BYTES: Final = 8 * 1024
HEAD_S: Final = 10.0
ANSWER_S: Final = 60.0
MAX_SCRAPES: Final = 8
"""Connections at a time; further ones are closed. Prometheus has one per scrape."""


class ReadSamples(Collector):
    """The metrics of one scrape."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._metrics


def to_metrics(samples: Iterable[Sample], labels: dict[str, str]) -> list[Metric]:
    """Group samples by name; ``labels`` are added to each."""
    metrics: dict[str, Metric] = {}
    for sample in samples:
        metric = metrics.get(sample.name)
        if metric is None:
            name = sample.name.removesuffix("_total") if sample.kind == COUNTER else sample.name
            metric = metrics[sample.name] = Metric(name, sample.meaning, sample.kind)
        metric.add_sample(sample.name, {**labels, **sample.labels}, sample.value)
    return list(metrics.values())


def write_text(samples: Iterable[Sample], labels: dict[str, str]) -> bytes:
    """Return the samples in the text format of Prometheus, version 0.0.4."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ReadSamples(to_metrics(samples, labels)))
    return generate_latest(registry)


class MetricsExporter:
    """The HTTP server of one broker; ``address`` is where it listens."""

    def __init__(self, context: BrokerContext) -> None:
        self.address = ""
        self._context = context
        self._server: asyncio.Server | None = None
        self._scrapes = 0

    async def start(self) -> None:
        """Listen; ConnectError if that is not possible."""
        config = self._context.config
        host = config.metrics_prom_exporter_host or config.bind_address
        port = config.metrics_prom_exporter_port
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=HEAD_BYTES)
        except OSError as error:
            address = format_address(host, port)
            raise ConnectError(
                f"metrics: cannot listen on {address}: {error.strerror or error}",
                "set metricsPromExporterHost and metricsPromExporterPort",
                address=address,
            ) from error
        self.address = format_address(*self._server.sockets[0].getsockname()[:2])
        log.info("metrics: http://%s/metrics", self.address)

    def close(self) -> None:
        """Stop listening; a scrape in progress ends with its connection."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close its connection."""
        self._scrapes += 1
        try:
            if self._scrapes <= MAX_SCRAPES:
                await self._answer(reader, writer)
        except (OSError, EOFError, ValueError, TimeoutError):
            log.debug("metrics: a request was not answered", exc_info=True)
        finally:
            self._scrapes -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """ValueError for a head that is longer than HEAD_BYTES, EOFError for one that is cut."""
        try:
            async with asyncio.timeout(HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError as error:
            raise ValueError("request head too long") from error
        method = head.split(b" ", 1)[0]
        async with asyncio.timeout(ANSWER_S):
            if method in (b"GET", b"HEAD"):
                body = await self._text()
                status = "200 OK"
            else:
                body, status = b"", "405 Method Not Allowed\r\nAllow: GET, HEAD"
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            )
            if method == b"GET":
                writer.write(body)
            await writer.drain()

    async def _text(self) -> bytes:
        context = self._context
        samples = await collect_in_slices(all_samples(context), PER_SLICE)
        for part in await collect_in_slices(lag(context), LAG_PER_SLICE):
            samples += part
        labels = {
            "node_type": "broker",
            "cluster": context.config.broker_cluster_name,
            "node_id": context.config.broker_name,
            **parse_labels(context.config.metrics_label),
        }
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, write_text, samples, labels)
