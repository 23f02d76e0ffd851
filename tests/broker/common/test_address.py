import errno

import pytest

from broker.common.address import (
    connect_refused,
    decode_host,
    decode_ip,
    encode_address,
    encode_host,
    encode_ip,
    format_address,
    host_and_port,
    is_loopback,
    lookup_name,
    parse_address,
)
from broker.errors import LocalProtocolError, RemoteProtocolError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("1.2.3.4:5", "1.2.3.4", 5),
        ("broker-a:10911", "broker-a", 10911),
        ("[::1]:65535", "::1", 65535),
        (" /1.2.3.4:0 ", "1.2.3.4", 0),
    ],
)
def test_addresses_parse_and_format(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)
    assert format_address(host, port) == text.strip().lstrip("/")


@pytest.mark.parametrize(
    "text", ["", "host", ":1", "h:", "h:x", "h:65536", "h:-1", "::1:5", "h:²", "h:1234567"]
)
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(LocalProtocolError):
        parse_address(text)


@pytest.mark.parametrize(
    ("host", "raw"),
    [
        ("1.2.3.255", "010203ff"),
        ("::1", "00000000000000000000000000000001"),
        ("2001:db8::7", "20010db8000000000000000000000007"),
        ("fe80::1%eth0", "fe800000000000000000000000000001"),
        ("::ffff:1.2.3.4", "01020304"),
    ],
)
def test_ip_literals(host: str, raw: str) -> None:
    assert encode_ip(host).hex() == raw


@pytest.mark.parametrize(
    "host", ["", "1.2.3", "1.2.3.256", "a.b.c.d", "1.2.3.4.5", ":::", "h", "1.2.3.²"]
)
def test_host_names_are_not_ip_literals(host: str) -> None:
    with pytest.raises(LocalProtocolError):
        encode_ip(host)


def test_host_bytes_round_trip(rng) -> None:
    for _ in range(300):
        raw = rng.randbytes(rng.choice((4, 16))) + rng.randrange(65536).to_bytes(4, "big")
        text = decode_host(b"xx" + raw, 2, len(raw) == 20)
        assert decode_host(memoryview(raw), 0, len(raw) == 20) == text
        host, port = parse_address(text)
        if not raw.startswith(b"\0" * 10 + b"\xff\xff"):
            assert encode_host(host, port) == encode_address(text) == raw


def test_short_buffers_are_refused(every_cut) -> None:
    assert every_cut(lambda data: decode_host(data), b"\x01" * 8) == []
    assert every_cut(lambda data: decode_host(data, 0, True), b"\x01" * 20) == []
    with pytest.raises(RemoteProtocolError, match="8 bytes"):
        decode_host(b"\0" * 8, -1)
    with pytest.raises(RemoteProtocolError, match="not 5"):
        decode_ip(b"12345")


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost", "::ffff:127.0.0.1")))
    assert not any(map(is_loopback, ("1.2.3.4", "::2", "example", "")))


def test_an_ascii_host_is_looked_up_without_the_idna_codec() -> None:
    assert lookup_name("localhost") == b"localhost"
    assert lookup_name("::1") == b"::1"
    assert lookup_name("b\u00fccher.example") == "b\u00fccher.example"


def test_a_refused_connection_has_a_hint_and_other_failures_their_text() -> None:
    nothing = connect_refused("h:1 (dialled as g:2)", errno.ECONNREFUSED, "h:1")
    assert nothing.message == "cannot connect to h:1 (dialled as g:2): Connection refused"
    assert "is the process up" in nothing.hint
    assert nothing.address == "h:1"
    unreachable = connect_refused("h:1", errno.EHOSTUNREACH, "h:1")
    assert unreachable.message == "cannot connect to h:1: No route to host"
    assert unreachable.hint == ""


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (("10.0.0.1", 5), ("10.0.0.1", 5)),
        (("::ffff:10.0.0.1", 5, 0, 0), ("10.0.0.1", 5)),
        (("fe80::1%eth0", 5, 0, 2), ("fe80::1", 5)),
        (("::ffff:0:1", 5, 0, 0), ("::ffff:0:1", 5)),
        ("", ("0.0.0.0", 0)),
        (None, ("0.0.0.0", 0)),
    ],
)
def test_the_address_of_a_socket_is_host_and_port(peer: object, expected: tuple[str, int]) -> None:
    assert host_and_port(peer) == expected
