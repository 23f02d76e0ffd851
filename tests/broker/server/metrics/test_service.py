"""The metrics service: off by default, without loading the exporter."""

import subprocess
import sys

from broker.server.standalone import EmbeddedBroker

SCRIPT = """
import asyncio, sys
from broker.server.standalone import EmbeddedBroker

async def main():
    async with EmbeddedBroker(sys.argv[1]) as broker:
        assert broker.controller.metrics.address == ""
    assert "prometheus_client" not in sys.modules

asyncio.run(main())
"""


def test_the_exporter_is_loaded_only_if_the_settings_ask_for_it(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_it_listens_at_the_address_of_the_settings(run, tmp_path) -> None:
    properties = {
        "metricsExporterType": "PROM",
        "metricsPromExporterPort": "0",
        "metricsPromExporterHost": "127.0.0.2",
    }

    async def main() -> None:
        async with EmbeddedBroker(str(tmp_path), properties) as broker:
            assert broker.controller.metrics.address.startswith("127.0.0.2:")

    run(main())
