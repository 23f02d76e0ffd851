"""TLS contexts: unusable files, verification, files that change."""

import os
import ssl
from pathlib import Path

import msgspec
import pytest

from broker.errors import ConfigError
from broker.remoting.security import tls
from broker.remoting.security.tls import ServerTls, client_context, server_tls
from broker.remoting.security.tls_settings import TlsConfig, check_tls
from tests.support.certificates import write_certificate


@pytest.fixture
def served(tmp_path: Path) -> TlsConfig:
    certificate, key = write_certificate(tmp_path)
    return TlsConfig(tls_server_cert_path=str(certificate), tls_server_key_path=str(key))


def test_without_a_certificate_or_disabled_tls_is_off(served: TlsConfig) -> None:
    check_tls(TlsConfig())
    assert server_tls(TlsConfig()) is None
    assert server_tls(msgspec.structs.replace(served, tls_server_mode="disabled")) is None
    assert client_context(TlsConfig()) is None


@pytest.mark.parametrize("lost", ["tls_server_cert_path", "tls_server_key_path"])
def test_a_file_that_cannot_be_used_is_named(served: TlsConfig, lost: str, tmp_path: Path) -> None:
    path = tmp_path / "other.pem"
    changed = msgspec.structs.replace(served, **{lost: str(path)})
    with pytest.raises(ConfigError, match=r"other\.pem: No such file"):
        ServerTls(changed)
    path.write_text("text")
    with pytest.raises(ConfigError, match=r"tls\.server\.certPath.*other\.pem"):
        ServerTls(changed)


@pytest.mark.parametrize("password", ["", "wrong"])
def test_an_encrypted_key_needs_its_password(tmp_path: Path, password: str) -> None:
    certificate, key = write_certificate(tmp_path, password="right")
    config = TlsConfig(
        tls_server_cert_path=str(certificate),
        tls_server_key_path=str(key),
        tls_server_key_password=password,
    )
    with pytest.raises(ConfigError, match=r"key\.pem: "):
        ServerTls(config)
    ServerTls(msgspec.structs.replace(config, tls_server_key_password="right"))


@pytest.mark.parametrize(
    ("auth", "mode"),
    [
        ("none", ssl.CERT_NONE),
        ("optional", ssl.CERT_OPTIONAL),
        ("require", ssl.CERT_REQUIRED),
    ],
)
def test_client_certificates_are_verified_as_set(served: TlsConfig, auth: str, mode: int) -> None:
    config = msgspec.structs.replace(
        served,
        tls_server_need_client_auth=auth,
        tls_server_auth_client=True,
        tls_server_trust_cert_path=served.tls_server_cert_path,
    )
    check_tls(config)
    context = ServerTls(config).context()
    assert context.verify_mode == mode
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_opened_connections_verify_unless_that_is_turned_off(served: TlsConfig) -> None:
    trust = served.tls_server_cert_path
    verified = client_context(TlsConfig(tls_enable=True, tls_client_trust_cert_path=trust))
    assert verified is not None
    assert verified.verify_mode == ssl.CERT_REQUIRED
    assert not verified.check_hostname
    assert verified.cert_store_stats()["x509"] == 1
    unverified = client_context(TlsConfig(tls_enable=True, tls_client_auth_server=False))
    assert unverified is not None
    assert unverified.verify_mode == ssl.CERT_NONE
    with pytest.raises(ConfigError, match=r"tls\.client\.trustCertPath: /nowhere: No such file"):
        client_context(TlsConfig(tls_enable=True, tls_client_trust_cert_path="/nowhere"))


def test_changed_files_are_loaded_and_unusable_ones_leave_the_certificate(
    served: TlsConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [100.0]
    monkeypatch.setattr(tls.time, "monotonic", lambda: now[0])
    server = ServerTls(served)
    first = server.context()
    write_certificate(tmp_path)
    assert server.context() is first, "within a second no file is looked at"
    now[0] += 1.0
    second = server.context()
    assert second is not first
    now[0] += 1.0
    assert server.context() is second, "nothing changed"
    os.truncate(served.tls_server_key_path, 0)
    now[0] += 1.0
    assert server.context() is second
    assert "the certificate from before remains in use" in caplog.text
    write_certificate(tmp_path)
    now[0] += 1.0
    assert server.context() not in (first, second)
