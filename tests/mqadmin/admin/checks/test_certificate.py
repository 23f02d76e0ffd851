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


def test_every_changed_bit_of_a_certificate_is_a_time_or_refused(make: Make) -> None:
    der = ssl.PEM_cert_to_DER_cert(make()[0].read_text())
    for position in range(min(len(der), 120)):
        for bit in range(8):
            changed = bytearray(der)
            changed[position] ^= 1 << bit
            try:
                found = not_after(bytes(changed))
            except ConfigError:
                continue
            assert isinstance(found, float)


@pytest.mark.parametrize(
    "data", [b"", b"\x30", b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", b"\0" * 64]
)
def test_bytes_that_are_not_der_are_refused(data: bytes) -> None:
    with pytest.raises(ConfigError, match=r"not an X\.509 certificate"):
        not_after(data)


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1", "127.0.0.1:port", "127.0.0.1:0x1"])
def test_an_address_that_is_not_one_is_unknown_and_the_others_are_checked(
    server: tuple[str, Path], address: str
) -> None:
    now = END.timestamp() - 40 * DAY_S
    rows = check_certificates([address, server[0]], 30, 7, now=lambda: now)
    assert [row.status for row in rows] == ["UNKNOWN", "OK"]
    assert rows[0].message


def test_a_server_without_tls_is_unknown_and_named_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            connection.recv(1)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        (row,) = check_certificates([address], 30, 7, timeout_s=5)
        thread.join(10)
    assert row.status == "UNKNOWN"
    assert "no TLS handshake" in row.message


@pytest.mark.parametrize("content", [None, "no PEM"])
def test_an_authority_that_cannot_be_read_is_named(
    server: tuple[str, Path], tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=f"{path}: no certificate authority"):
        check_certificates([server[0]], 30, 7, ca=str(path))


def test_an_expired_certificate_that_is_not_trusted_has_both_reasons(
    server: tuple[str, Path], make: Make
) -> None:
    now = END.timestamp() + DAY_S
    (row,) = check_certificates([server[0]], 30, 7, ca=str(make()[0]), now=lambda: now)
    assert "has expired, the certificate is not trusted: " in row.message


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n",
    ],
)
def test_a_file_with_an_invalid_certificate_is_unknown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.pem"
    path.write_text(text)
    (row,) = check_certificate_files([str(path)], 30, 7)
    assert row.status == "UNKNOWN"
    assert "certificate" in row.message


def test_a_file_without_a_certificate_and_a_missing_file_have_their_reasons(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("-----BEGIN PRIVATE KEY-----\n")
    rows = check_certificate_files([str(tmp_path / "key.pem"), str(tmp_path / "no.pem")], 30, 7)
    assert "contains no certificate" in rows[0].message
    assert "No such file or directory" in rows[1].message
