"""Java clients and Java mqadmin over TLS, and the Java name server with its own certificate."""

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest

from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from tests.support.certificates import write_certificate


@pytest.fixture
def certificate(tmp_path: Path) -> dict[str, str]:
    """Settings of a server with a certificate."""
    path, key = write_certificate(tmp_path)
    return {"tls.server.certPath": str(path), "tls.server.keyPath": str(key)}


def test_a_java_client_with_tls_sends_and_receives(
    our_servers: Any, tls_peer: Any, certificate: dict[str, str], tmp_path: Path
) -> None:
    namesrv = our_servers.namesrv(tmp_path / "namesrv", **certificate)
    enforcing = {**certificate, "tls.server.mode": "enforcing"}
    trust = {"tls.enable": "true", "tls.client.trustCertPath": certificate["tls.server.certPath"]}
    daemon = our_servers.broker(
        tmp_path / "broker", tmp_path / "store", namesrv, **enforcing, **trust
    )
    listed = tls_peer.mqadmin("clusterList", "-n", namesrv)
    assert daemon.address in listed
    tls_peer.mqadmin("updateTopic", "-n", namesrv, "-b", daemon.address, "-t", "Tls")
    sent = tls_peer.produce(namesrv=namesrv, topic="Tls", mode="sync", count=20, size=50_000)
    assert all(event["status"] == "SEND_OK" for event in sent), sent
    tls_peer.ask("consume", namesrv=namesrv, topic="Tls", group="g-tls", consumer="tls")
    received = tls_peer.messages("tls", 20)
    tls_peer.ask("stop", consumer="tls")
    assert {event["uniqKey"] for event in received} == {event["msgId"] for event in sent}
    assert len({base64.b64decode(event["body"]) for event in received}) == 20


def test_a_java_client_without_tls_gets_nothing_from_an_enforcing_broker(
    our_servers: Any, peer_533: Any, certificate: dict[str, str], tmp_path: Path
) -> None:
    namesrv = our_servers.namesrv(tmp_path / "namesrv", **certificate)
    enforcing = {**certificate, "tls.server.mode": "enforcing"}
    daemon = our_servers.broker(tmp_path / "broker", tmp_path / "store", namesrv, **enforcing)
    events = peer_533.try_ask("produce", namesrv=namesrv, topic="TBW102", mode="sync", count=1)
    assert all(event.get("status") != "SEND_OK" for event in events), events
    assert any(event.get("error") for event in events), events
    context = ssl.create_default_context(cafile=certificate["tls.server.certPath"])
    with BlockingClient(tls=context, timeout_ms=10_000) as client:
        answer = client.call(daemon.address, request(RequestCode.GET_BROKER_RUNTIME_INFO))
    assert answer.code == 0


def test_our_broker_registers_at_a_java_name_server_over_tls(
    our_servers: Any, java_servers: Any, peer_533: Any, tmp_path: Path
) -> None:
    """The Java name server makes a certificate for itself; no trust store has it."""
    namesrv = java_servers.namesrv(tmp_path / "namesrv", "-Dtls.server.mode=permissive")
    daemon = our_servers.broker(
        tmp_path / "broker",
        tmp_path / "store",
        namesrv,
        **{"tls.enable": "true", "tls.client.authServer": "false"},
    )
    assert daemon.address in peer_533.mqadmin("clusterList", "-n", namesrv)
