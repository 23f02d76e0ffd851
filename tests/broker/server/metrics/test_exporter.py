"""The HTTP server of the metrics: scrapes, other requests, slow and hostile clients."""

import asyncio
import socket

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.errors import ConnectError
from broker.server.metrics import exporter
from broker.server.metrics.exporter import MAX_SCRAPES, write_text
from broker.server.metrics.families import COUNTER, GAUGE, Sample
from broker.server.standalone import EmbeddedBroker

PROM = {"metricsExporterType": "PROM", "metricsPromExporterPort": "0", "metricsLabel": "zone:a"}


async def ask(address: str, head: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(head)
    text = await reader.read()
    writer.close()
    first, _, rest = text.partition(b"\r\n\r\n")
    return first, rest


def test_the_text_has_one_family_per_name_and_the_labels_of_the_broker() -> None:
    samples = [
        Sample("a_total", COUNTER, "first", {"topic": 'T"\n'}, 2),
        Sample("b", GAUGE, "second", {}, 1.5),
        Sample("a_total", COUNTER, "first", {"topic": "U"}, 3),
    ]
    text = write_text(samples, {"node_id": "broker-a"}).decode()
    first, second = text_string_to_metric_families(text)
    assert (first.name, first.type, first.documentation) == ("a", "counter", "first")
    assert [(one.name, one.labels, one.value) for one in first.samples] == [
        ("a_total", {"node_id": "broker-a", "topic": 'T"\n'}, 2.0),
        ("a_total", {"node_id": "broker-a", "topic": "U"}, 3.0),
    ]
    assert [(one.name, one.value) for one in second.samples] == [("b", 1.5)]


def test_a_scrape_is_answered_at_every_path(run, tmp_path) -> None:
    async def main() -> None:
        async with EmbeddedBroker(str(tmp_path), PROM) as broker:
            address = broker.controller.metrics.address
            for path in (b"/metrics", b"/", b"/x?y"):
                head, body = await ask(address, b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
                assert head.startswith(b"HTTP/1.1 200 OK\r\n")
                assert b"Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n" in head
                assert b"Content-Length: %d" % len(body) in head
                families = {one.name: one for one in text_string_to_metric_families(body.decode())}
                (sample,) = families["rocketmq_broker_permission"].samples
                assert sample.value == 6
                assert sample.labels == {
                    "node_type": "broker",
                    "cluster": "DefaultCluster",
                    "node_id": "broker-a",
                    "zone": "a",
                }
        with pytest.raises(ConnectionRefusedError):
            await ask(address, b"")

    run(main())


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        (b"HEAD / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK"),
        (b"POST / HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 Method Not Allowed"),
        (b"\x16\x03\x01\r\n\r\n", b"HTTP/1.1 405 Method Not Allowed"),
        (b"GET / HTTP/1.1\r\n" + b"x" * 20_000 + b"\r\n\r\n", b""),
    ],
)
def test_other_requests_have_no_body(run, tmp_path, head: bytes, answer: bytes) -> None:
    async def main() -> None:
        async with EmbeddedBroker(str(tmp_path), PROM) as broker:
            try:
                found, body = await ask(broker.controller.metrics.address, head)
            except ConnectionResetError:
                found, body = b"", b""
            assert found.startswith(answer)
            assert body == b""
            assert bool(found) is bool(answer)

    run(main())


def test_connections_at_a_time_are_bounded_and_a_silent_one_ends(
    run, tmp_path, monkeypatch
) -> None:
    async def main() -> None:
        async with EmbeddedBroker(str(tmp_path), PROM) as broker:
            address = broker.controller.metrics.address
            host, _, port = address.rpartition(":")
            silent = [await asyncio.open_connection(host, int(port)) for _ in range(MAX_SCRAPES)]
            await asyncio.sleep(0.05)  # all of them are accepted
            assert await ask(address, b"") == (b"", b""), "one more is closed"
            for reader, writer in silent:
                assert await reader.read() == b"", "closed after HEAD_S"
                writer.close()
            head, _ = await ask(address, b"GET / HTTP/1.1\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")

    monkeypatch.setattr(exporter, "HEAD_S", 0.3)
    run(main())


def test_an_address_in_use_stops_the_start(run, tmp_path) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            with pytest.raises(ConnectError, match="metrics: cannot listen") as caught:
                async with EmbeddedBroker(str(tmp_path), {**PROM, "metricsPromExporterPort": port}):
                    pass
            assert "metricsPromExporterPort" in caught.value.hint

    run(main())
