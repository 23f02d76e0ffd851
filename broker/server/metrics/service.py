"""MetricsService: starts and stops the exporter of one broker, if its settings ask for it."""

import importlib
from typing import TYPE_CHECKING

from broker.server.context import BrokerContext
from broker.server.metrics.settings import is_enabled

if TYPE_CHECKING:
    from broker.server.metrics.exporter import MetricsExporter


class MetricsService:
    """Does nothing with ``metricsExporterType=DISABLE``: prometheus_client is not loaded then."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._exporter: MetricsExporter | None = None

    @property
    def address(self) -> str:
        """Where the metrics are served; empty if they are not."""
        return self._exporter.address if self._exporter is not None else ""

    async def start(self) -> None:
        """Serve the metrics; ConnectError if the address cannot be used."""
        if is_enabled(self._context.config.metrics_exporter_type):
            module = importlib.import_module("broker.server.metrics.exporter")
            self._exporter = module.MetricsExporter(self._context)
            await self._exporter.start()

    def close(self) -> None:
        """Stop serving."""
        if self._exporter is not None:
            self._exporter.close()
