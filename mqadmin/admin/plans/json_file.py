"""Files that one command writes and another reads: plans of changes, metadata of clusters."""

import errno
import os
from codecs import BOM_UTF8
from collections.abc import Iterable
from contextlib import suppress
from typing import TypeVar

import msgspec

from broker.errors import ConfigError, DiskFullError

F = TypeVar("F")


def save_new(path: str, content: msgspec.Struct, subject: str) -> None:
    """Write a JSON file that must not exist yet, as :func:`write_new`."""
    data = msgspec.json.format(msgspec.json.encode(content), indent=2)
    write_new(path, [data, b"\n"], subject)


def write_new(
    path: str,
    pieces: Iterable[bytes],
    subject: str,
    *,
    sync: bool = False,
    hint: str = "name another file",
) -> int:
    """Write a file that must not exist yet; return the number of pieces.

    ConfigError with ``subject`` and path if it cannot be written, DiskFullError for a full disk. A
    file that is not complete is removed, whatever ended the pieces.
    """
    written = 0
    try:
        with open(path, "xb") as file:
            try:
                for piece in pieces:
                    file.write(piece)
                    written += 1
                file.flush()
                if sync:
                    os.fsync(file.fileno())
            except BaseException:
                with suppress(OSError):
                    os.unlink(path)
                raise
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(
                f"cannot write {subject} {path}: {reason}", f"free disk space, or {hint}", path=path
            ) from error
        raise ConfigError(f"{subject} {path}: {reason}", hint) from error
    return written


def load_json(path: str, kind: type[F], subject: str, *, limit_bytes: int, hint: str) -> F:
    """Read a file; ConfigError with ``subject`` and path when it cannot be used.

    ``hint`` names the command that writes such a file.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(limit_bytes + 1)
    except OSError as error:
        raise ConfigError(
            f"{subject} {path}: {error.strerror or error}", "is the path right?"
        ) from error
    if len(data) > limit_bytes:
        raise ConfigError(f"{subject} {path}: more than {limit_bytes} bytes")
    try:
        return msgspec.json.decode(data.removeprefix(BOM_UTF8), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{subject} {path}: {error}", hint) from error
