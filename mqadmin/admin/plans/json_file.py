"""Files that one command writes and another reads: plans of changes, metadata of clusters."""

import os
from codecs import BOM_UTF8
from contextlib import suppress
from typing import TypeVar

import msgspec

from broker.errors import ConfigError

F = TypeVar("F")


def save_new(path: str, content: msgspec.Struct, subject: str) -> None:
    """Write a file that must not exist yet; ConfigError with ``subject`` and path otherwise.

    A file that cannot be written whole is removed.
    """
    data = msgspec.json.format(msgspec.json.encode(content), indent=2)
    created = False
    try:
        with open(path, "xb") as file:
            created = True
            file.write(data + b"\n")
            file.flush()
    except OSError as error:
        if created:
            with suppress(OSError):
                os.unlink(path)
        raise ConfigError(
            f"{subject} {path}: {error.strerror or error}", "name another file"
        ) from error


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
