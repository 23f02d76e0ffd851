"""Certificates of servers and files: days left, trust, addresses without TLS."""

import datetime
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from broker.errors import ConfigError
from mqadmin.admin.checks.certificate import (
    DAY_S,
    check_certificate_files,
    check_certificates,
    not_after,
)

END = datetime.datetime(2031, 5, 6, 7, 8, 9, tzinfo=datetime.UTC)
Make = Callable[..., tuple[Path, Path]]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Write a self-signed certificate and its key as PEM files."""

    def certificate(end: datetime.datetime = END) -> tuple[Path, Path]:
        folder = tmp_path_factory.mktemp("certificate")
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mq")])
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC))
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        paths = folder / "cert.pem", folder / "key.pem"
        paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return paths

    return certificate


@pytest.fixture
def server(make: Make) -> Iterator[tuple[str, Path]]:
    """A server that makes TLS handshakes; its address and its certificate."""
    cert, key = make()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            try:
                context.wrap_socket(connection, server_side=True).close()
            except OSError:
                connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}", cert
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)


@pytest.mark.parametrize(
    ("days", "status"), [(31, "OK"), (29, "WARNING"), (6, "CRITICAL"), (-1, "CRITICAL")]
)
def test_the_days_left_are_compared_with_the_limits(
    server: tuple[str, Path], days: int, status: str
) -> None:
    now = END.timestamp() - days * DAY_S
    (row,) = check_certificates([server[0]], 30, 7, now=lambda: now)
    assert (row.status, row.metrics[0].value) == (status, days)
    assert ("expired" in row.message) == (days < 0)


def test_a_certificate_is_verified_when_an_authority_is_named(
    server: tuple[str, Path], make: Make
) -> None:
    address, own = server
    (row,) = check_certificates([address], 30, 7, ca=str(own))
    assert row.status == "OK"
    (row,) = check_certificates([address], 30, 7, ca=str(make()[0]))
    assert row.status == "CRITICAL"
    assert "not trusted" in row.message


def test_an_address_is_mapped_and_a_closed_port_is_unknown(server: tuple[str, Path]) -> None:
    rows = check_certificates(
        ["10.0.0.1:10911", "127.0.0.1:1"], 30, 7, address_map={"10.0.0.1:10911": server[0]}
    )
    assert [row.status for row in rows] == ["OK", "UNKNOWN"]


def test_a_server_that_never_answers_the_handshake_is_unknown_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        (row,) = check_certificates([address], 30, 7, timeout_s=0.2)
    assert row.status == "UNKNOWN"
    assert "no answer in time" in row.message


def test_the_first_certificate_of_a_file_to_expire_decides(make: Make, tmp_path: Path) -> None:
    later = make()[0].read_text()
    sooner = make(END - datetime.timedelta(days=10))[0].read_text()
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(later + sooner)
    now = END.timestamp() - 20 * DAY_S
    (row,) = check_certificate_files([str(bundle)], 30, 7, now=lambda: now)
    assert (row.status, row.metrics[0].value) == ("WARNING", 10)
    (tmp_path / "empty").write_text("")
    rows = check_certificate_files([str(tmp_path / "empty"), "/nonexistent"], 30, 7)
    assert [row.status for row in rows] == ["UNKNOWN", "UNKNOWN"]


@pytest.mark.parametrize("end", [END, END.replace(year=2055)])
def test_the_end_of_the_validity_is_read_in_both_forms_of_time(
    make: Make, end: datetime.datetime
) -> None:
    der = ssl.PEM_cert_to_DER_cert(make(end)[0].read_text())
    assert not_after(der) == end.timestamp()


def test_every_cut_of_a_certificate_is_refused(make: Make) -> None:
    der = ssl.PEM_cert_to_DER_cert(make()[0].read_text())
    for length in range(len(der)):
        with pytest.raises(ConfigError):
            not_after(der[:length])
