"""Compressed bodies: zlib, LZ4 (frame format), zstd; output is bounded by the caller's limit.

A compressed record of 4 MiB can expand to gigabytes, so decompression stops one byte above the
limit. lz4 and zstd are imported at first use.

**Source:** RocketMQ CompressorFactory, CompressionType (sysFlag bits 0x700).
"""

import zlib
from collections.abc import Callable
from typing import Any, Protocol

from broker.common.sysflag import (
    COMPRESSION_LZ4,
    COMPRESSION_MASK,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
)
from broker.errors import LocalProtocolError, RemoteProtocolError

DEFAULT_LEVEL = 5  # the default of Java producers

_NAMES = {0: "zlib", COMPRESSION_ZLIB: "zlib", COMPRESSION_LZ4: "lz4", COMPRESSION_ZSTD: "zstd"}
_TYPES = {"zlib": COMPRESSION_ZLIB, "lz4": COMPRESSION_LZ4, "zstd": COMPRESSION_ZSTD}


class _Decompressor(Protocol):
    eof: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def compression_name(sys_flag: int) -> str:
    """Return ``zlib``, ``lz4``, ``zstd`` or ``unknown`` for the type bits (0: zlib)."""
    return _NAMES.get(sys_flag & COMPRESSION_MASK, "unknown")


def compression_bits(name: str) -> int:
    """Return the type bits for ``zlib``, ``lz4`` or ``zstd``; LocalProtocolError otherwise."""
    bits = _TYPES.get(name.lower())
    if bits is None:
        raise LocalProtocolError(f"unknown compression {name!r:.40}", "use zlib, lz4 or zstd")
    return bits


def _zstd() -> Any:
    try:
        from compression import zstd  # Python 3.14
    except ImportError:
        from backports import zstd
    return zstd


def _decompressor_factory(name: str) -> Callable[[], _Decompressor]:
    factory: Any
    if name == "zlib":
        factory = zlib.decompressobj
    elif name == "lz4":
        import lz4.frame

        factory = lz4.frame.LZ4FrameDecompressor
    else:
        factory = _zstd().ZstdDecompressor
    made: Callable[[], _Decompressor] = factory
    return made


def decompress(body: bytes | memoryview, sys_flag: int, limit_bytes: int) -> bytes:
    """Decompress a body by the compression type in its sysFlag.

    As in Java's streams, bytes after the end of a zlib stream are ignored and consecutive LZ4 or
    zstd frames are joined. Raises RemoteProtocolError for an unknown type, an invalid or truncated
    stream, or a result above ``limit_bytes``; an empty body stays empty.
    """
    name = compression_name(sys_flag)
    if name == "unknown":
        raise RemoteProtocolError(
            f"unknown compression type {sys_flag & COMPRESSION_MASK:#x} in sysFlag"
        )
    rest = bytes(body)
    if not rest:
        return b""
    factory = _decompressor_factory(name)
    decompressor = factory()
    pieces: list[bytes] = []
    room = limit_bytes + 1
    while True:
        try:
            piece = decompressor.decompress(rest, room)
        except Exception as error:  # zlib.error, RuntimeError (lz4), ZstdError: no common base
            raise RemoteProtocolError(f"{name} body: {error}") from None
        pieces.append(piece)
        room -= len(piece)
        if room <= 0:
            raise RemoteProtocolError(
                f"{name} body: expands to more than {limit_bytes} bytes",
                "raise the limit, or show the stored bytes",
            )
        if not decompressor.eof:
            raise RemoteProtocolError(f"{name} body: the stream is cut")
        rest = decompressor.unused_data
        if not rest or name == "zlib":
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        decompressor = factory()


def compress(body: bytes, name: str = "zlib", level: int = DEFAULT_LEVEL) -> bytes:
    """Compress a body with ``zlib``, ``lz4`` or ``zstd``; LocalProtocolError for other names."""
    bits = compression_bits(name)
    if bits == COMPRESSION_ZLIB:
        return zlib.compress(body, level)
    if bits == COMPRESSION_LZ4:
        import lz4.frame

        compressed: bytes = lz4.frame.compress(body, compression_level=level)
        return compressed
    packed: bytes = _zstd().compress(body, level)
    return packed
