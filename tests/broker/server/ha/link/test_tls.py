"""TLS of the HA connection: both sides verify each other; other peers get no byte."""

import socket
import subprocess
from pathlib import Path

import msgspec
import pytest

from broker.errors import ConfigError
from broker.server.ha import client as ha_client
from broker.server.ha.config import HaConfig
from broker.server.ha.link.tls import make_context
from tests.support.replicas import Pair, in_pair, log_bytes, put, until

QUICK = HaConfig(ha_send_heartbeat_interval=20, ha_housekeeping_interval=2_000)


@pytest.fixture(autouse=True)
def fast_reconnect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "RECONNECT_MS", 20)


def certificate(folder: Path, name: str) -> tuple[str, str]:
    """A new self-signed certificate and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", f"/CN={name}", "-out", str(cert), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    return str(cert), str(key)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> HaConfig:
    cert, key = certificate(tmp_path_factory.mktemp("tls"), "brokers")
    return msgspec.structs.replace(
        QUICK, ha_tls_cert_path=cert, ha_tls_key_path=key, ha_tls_trust_cert_path=cert
    )


def test_a_slave_follows_over_tls_and_the_logs_are_equal(
    tmp_path: Path, config: HaConfig, run
) -> None:
    async def scenario(pair: Pair) -> None:
        slave, client = pair.follow()
        put(pair.master, 1)
        await until(lambda: slave.max_physical_offset)  # an empty slave gets the last file only
        for _ in range(5):
            put(pair.master, 60, size=3_000)
            end = pair.master.max_physical_offset
            await until(lambda end=end: slave.max_physical_offset == end)
        assert log_bytes(slave) == log_bytes(pair.master)
        await until(lambda: pair.service.runtime_info().ha_connection_info[0].diff == 0)
        assert client.problem == ""

    run(in_pair(tmp_path, scenario, config))


@pytest.mark.parametrize("slave", ["plain", "other certificate"])
def test_a_slave_without_the_trusted_certificate_gets_nothing(
    tmp_path: Path, config: HaConfig, slave: str, run
) -> None:
    wrong = QUICK
    if slave != "plain":
        cert, key = certificate(tmp_path, "other")
        wrong = msgspec.structs.replace(config, ha_tls_cert_path=cert, ha_tls_key_path=key)

    async def scenario(pair: Pair) -> None:
        put(pair.master, 5)
        pair.config = wrong
        store, client = pair.follow()
        await until(lambda: client.problem not in ("", "not connected yet"))
        await until(lambda: not pair.service.runtime_info().ha_connection_info)
        assert store.max_physical_offset == 0
        pair.config = config
        good, _ = pair.follow("good")
        await until(lambda: good.max_physical_offset == pair.master.max_physical_offset)

    run(in_pair(tmp_path, scenario, config))


def test_a_slave_with_tls_does_not_follow_a_master_without(
    tmp_path: Path, config: HaConfig, run
) -> None:
    async def scenario(pair: Pair) -> None:
        put(pair.master, 5)
        pair.config = config
        store, client = pair.follow()
        await until(lambda: client.problem not in ("", "not connected yet"))
        assert store.max_physical_offset == 0

    run(in_pair(tmp_path, scenario, QUICK))


def test_a_connection_that_sends_nothing_ends_with_the_handshake_limit(
    tmp_path: Path, config: HaConfig, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.server.ha.link.tls.HANDSHAKE_S", 0.05)

    async def scenario(pair: Pair) -> None:
        with socket.create_connection(("127.0.0.1", pair.service.port)):
            await until(lambda: pair.service.connections)
            await until(lambda: not pair.service.connections)

    run(in_pair(tmp_path, scenario, config))


def test_files_that_cannot_be_used_stop_the_start(tmp_path: Path, config: HaConfig) -> None:
    assert make_context(HaConfig(), server=True) is None
    with pytest.raises(ConfigError, match="haTlsKeyPath: missing"):
        make_context(HaConfig(ha_tls_cert_path="x", ha_tls_trust_cert_path="x"), server=True)
    with pytest.raises(ConfigError, match="TLS of the HA connection"):
        make_context(
            msgspec.structs.replace(config, ha_tls_key_path=str(tmp_path / "missing")),
            server=False,
        )
