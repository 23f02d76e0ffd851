"""host:port as text and in the 8/20-byte form of records and message ids.

::

    IPv4   |address 4|port 4|          8 bytes
    IPv6   |address 16     |port 4|   20 bytes

In text an IPv6 address before a port is written in brackets: ``[::1]:10911``.
"""

import os
from struct import pack, unpack_from

from broker.errors import ConnectError, LocalProtocolError, RemoteProtocolError

IPV4_HOST_SIZE = 8
IPV6_HOST_SIZE = 20


def parse_address(text: str) -> tuple[str, int]:
    """Split ``host:port`` or ``[v6]:port`` into host and port.

    A leading ``/`` (Java prints ``/1.2.3.4:567``) is removed. Raises LocalProtocolError if the
    port is missing or not 0..65535, or if an IPv6 host has no brackets.
    """
    stripped = text.strip().lstrip("/")
    host, colon, port_text = stripped.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if not colon or not host or (":" in host and not bracketed):
        raise LocalProtocolError(
            f"not an address: {text!r:.100}", "write host:port, an IPv6 host as [::1]:port"
        )
    if not (port_text.isascii() and port_text.isdigit()) or int(port_text[:6]) > 65535:
        raise LocalProtocolError(f"not a port in {text!r:.100}: {port_text!r:.20}")
    return host, int(port_text)


def format_address(host: str, port: int) -> str:
    """Join host and port; an IPv6 host gets brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def encode_ip(host: str) -> bytes:
    """Encode an IP literal as 4 or 16 bytes. LocalProtocolError if ``host`` is a name.

    An IPv4-mapped IPv6 address becomes IPv4, and a zone (``%eth0``) is dropped.

    **Source:** java.net.InetAddress#getByAddress, which also converts mapped addresses.
    """
    parts = host.split(".")
    if len(parts) == 4 and ":" not in host:
        if all(p.isascii() and p.isdigit() and len(p) <= 3 for p in parts):
            numbers = [int(p) for p in parts]
            if max(numbers) <= 255:
                return bytes(numbers)
    elif ":" in host:
        from ipaddress import AddressValueError, IPv6Address

        try:
            address = IPv6Address(host.partition("%")[0])
        except AddressValueError:
            pass
        else:
            mapped = address.ipv4_mapped
            return address.packed if mapped is None else mapped.packed
    raise LocalProtocolError(f"not an IP address: {host!r:.100}")


def decode_ip(data: bytes) -> str:
    """Decode 4 or 16 address bytes to text, IPv6 in short form without brackets."""
    if len(data) == 4:
        return f"{data[0]}.{data[1]}.{data[2]}.{data[3]}"
    if len(data) == 16:
        from ipaddress import IPv6Address

        return str(IPv6Address(bytes(data)))
    raise RemoteProtocolError(f"an IP address has 4 or 16 bytes, not {len(data)}")


def encode_host(host: str, port: int) -> bytes:
    """Encode an IP literal and a port (0..2^31-1) as 8 or 20 bytes. LocalProtocolError for a name.

    **Source:** RocketMQ MessageExt#socketAddress2ByteBuffer.
    """
    return encode_ip(host) + pack(">i", port)


def encode_address(text: str) -> bytes:
    """Encode ``ip:port`` as 8 or 20 bytes. LocalProtocolError as parse_address and encode_ip."""
    host, port = parse_address(text)
    return encode_ip(host) + pack(">i", port)


def decode_host(
    buffer: bytes | bytearray | memoryview, position: int = 0, ipv6: bool = False
) -> str:
    """Decode 8 (IPv4) or 20 (IPv6) bytes at ``position`` to ``1.2.3.4:567`` / ``[::1]:567``.

    Raises RemoteProtocolError if the buffer is too short.
    """
    size = IPV6_HOST_SIZE if ipv6 else IPV4_HOST_SIZE
    if position < 0 or position + size > len(buffer):
        raise RemoteProtocolError(
            f"a host needs {size} bytes, {len(buffer) - position} left", position=position
        )
    if not ipv6:
        a, b, c, d, port = unpack_from(">BBBBi", buffer, position)
        return f"{a}.{b}.{c}.{d}:{port}"
    (port,) = unpack_from(">i", buffer, position + 16)
    return f"[{decode_ip(bytes(buffer[position : position + 16]))}]:{port}"


def is_loopback(host: str) -> bool:
    """Whether ``host`` (no port) is this machine: 127.x, ::1, or the name localhost."""
    if host == "localhost":
        return True
    try:
        packed = encode_ip(host)
    except LocalProtocolError:
        return False
    return packed[0] == 127 if len(packed) == 4 else packed == b"\0" * 15 + b"\1"


def lookup_name(host: str) -> bytes | str:
    """Return a host in the form to pass to ``getaddrinfo``.

    ASCII as bytes: for a str Python imports the idna codec, which costs 8 ms of CPU.
    """
    return host.encode("ascii") if host.isascii() else host


def connect_refused(name: str, status: int, address: str) -> ConnectError:
    """Return the error for a connection that the operating system refused with ``status``.

    ``name`` is the address for messages: the advertised one, and the dialled one if it differs.
    """
    hint = ""
    if isinstance(OSError(status, ""), ConnectionRefusedError):  # by number, without errno
        hint = "nothing listens there: is the process up, is the port right?"
    return ConnectError(f"cannot connect to {name}: {os.strerror(status)}", hint, address=address)


def host_and_port(peer: object) -> tuple[str, int]:
    """Return host and port of a peer; an IPv4-mapped IPv6 address becomes IPv4."""
    if not isinstance(peer, tuple) or len(peer) < 2:
        return "0.0.0.0", 0
    host = str(peer[0]).partition("%")[0]
    if host.startswith("::ffff:") and "." in host:
        host = host[7:]
    return host, int(peer[1])
