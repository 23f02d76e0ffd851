"""Check the certificates that name servers and brokers present: days until they expire, trust.

The handshake accepts every certificate, so that an expired one can be read; with a CA a second
handshake verifies it. Python exposes the fields of verified certificates only, so the end of the
validity is read from the DER text here (RFC 5280, section 4.1).
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from broker.common.address import parse_address
from broker.errors import ConfigError, RocketMQError
from mqadmin.admin.checks.report import CheckRow, Metric, Status, row_of

DAY_S = 86_400
_SEQUENCE = 0x30
_VERSION = 0xA0
_UTC_TIME = 0x17
_GENERALIZED_TIME = 0x18


def check_certificates(
    addresses: Iterable[str],
    warn_days: float,
    crit_days: float,
    *,
    address_map: Mapping[str, str] | None = None,
    ca: str | None = None,
    timeout_s: float = 3.0,
    now: Callable[[], float] = time.time,
) -> list[CheckRow]:
    """Return one row per address (``host:port``); critical: expired or, with ``ca``, not trusted.

    Unknown: the address does not answer or uses no TLS. ConfigError if ``ca`` cannot be read.
    """
    authority = None if ca is None else _authority(ca)
    rows = []
    for address in addresses:
        dialled = (address_map or {}).get(address, address)
        try:
            der = _presented(dialled, timeout_s)
            days = (not_after(der) - now()) / DAY_S
            distrust = "" if authority is None else _distrust(dialled, authority, timeout_s)
        except (OSError, RocketMQError) as error:
            rows.append(row_of(address, [], least=Status.UNKNOWN, text=_reason(error)))
            continue
        rows.append(_row(address, days, warn_days, crit_days, distrust))
    return rows


def check_certificate_files(
    paths: Iterable[str],
    warn_days: float,
    crit_days: float,
    *,
    now: Callable[[], float] = time.time,
) -> list[CheckRow]:
    """Return one row per PEM file: the first of its certificates to expire."""
    rows = []
    for path in paths:
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                ends = [not_after(der) for der in _pem_certificates(file.read())]
        except (OSError, RocketMQError) as error:
            rows.append(row_of(path, [], least=Status.UNKNOWN, text=_reason(error)))
            continue
        if not ends:
            rows.append(row_of(path, [], least=Status.UNKNOWN, text="contains no certificate"))
            continue
        rows.append(_row(path, (min(ends) - now()) / DAY_S, warn_days, crit_days, ""))
    return rows


def _row(name: str, days: float, warn: float, crit: float, distrust: str) -> CheckRow:
    metric = Metric(name="daysLeft", value=round(days, 1), warn=warn, crit=crit, minimum=True)
    reasons = ["the certificate has expired"] if days < 0 else []
    if distrust:
        reasons.append(f"the certificate is not trusted: {distrust}")
    return row_of(
        name,
        [metric],
        least=Status.CRITICAL if reasons else Status.OK,
        text=", ".join(reasons),
    )


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"no TLS handshake: {error.reason or error}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)


def _presented(address: str, timeout_s: float) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return _handshake(address, context, timeout_s)


def _authority(ca: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ConfigError(
            f"{ca}: no certificate authority can be read: {error.strerror or error}",
            "name a PEM file with --tls-ca",
        ) from error
    context.check_hostname = False
    return context


def _distrust(address: str, authority: ssl.SSLContext, timeout_s: float) -> str:
    """Return why the certificate is not trusted; empty if it is, names aside (as RocketMQ)."""
    try:
        _handshake(address, authority, timeout_s)
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    return ""


def _handshake(address: str, context: ssl.SSLContext, timeout_s: float) -> bytes:
    host, port = parse_address(address)
    with (
        socket.create_connection((host, port), timeout=timeout_s) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        der = secured.getpeercert(binary_form=True)
    if not der:
        raise ConfigError(f"{address} presents no certificate")
    return der


def _pem_certificates(text: str) -> list[bytes]:
    begin, end = ssl.PEM_HEADER, ssl.PEM_FOOTER
    parts = text.split(begin)[1:]
    try:
        return [ssl.PEM_cert_to_DER_cert(begin + part.split(end)[0] + end) for part in parts]
    except ValueError as error:
        raise ConfigError(f"not a certificate: {error}") from error


def not_after(der: bytes) -> float:
    """Return the end of the validity of a DER certificate as epoch seconds; ConfigError if not."""
    try:
        _, certificate, _ = _element(der)
        _, fields, _ = _element(certificate)
        kind, _, rest = _element(fields)
        if kind == _VERSION:
            _, _, rest = _element(rest)  # the serial number
        _, _, rest = _element(rest)  # the algorithm
        _, _, rest = _element(rest)  # the issuer
        kind, validity, _ = _element(rest)
        if kind != _SEQUENCE:
            raise ValueError("no validity")
        _, _, rest = _element(validity)
        kind, content, _ = _element(rest)
        return _time(kind, content.decode("ascii"))
    except (IndexError, ValueError) as error:
        raise ConfigError(f"not an X.509 certificate: {error}") from error


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Return tag, content and rest of one DER element; IndexError or ValueError if it is cut."""
    tag, length, start = data[0], data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start], "big")
    if start + length > len(data):
        raise ValueError("an element is longer than the data")
    return tag, data[start : start + length], data[start + length :]


def _time(kind: int, text: str) -> float:
    if kind == _UTC_TIME:  # two digits of the year: 50 to 99 are 1950 to 1999
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    elif kind != _GENERALIZED_TIME:
        raise ValueError("no time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
