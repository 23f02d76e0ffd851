"""The folder of the compiled machine code, one per user and key: it is verified before it is used.

::

    XDG_CACHE_HOME or ~/.cache ─ mqadmin ─ machine-code ─ KEY ─ files of numba

Loading a file of the cache runs it. So the folder, everything in it, and every folder above it must
not be writable by another user; a link is refused, too. If a folder cannot be used, a temporary one
is, and the code is compiled for this process only.

KEY changes with the sources that the code depends on, the versions of Python, numba and llvmlite,
and the processor: numba itself compares the source of a loop, not the constants that it imports.
"""

import contextlib
import hashlib
import importlib.metadata
import importlib.resources
import logging
import os
import platform
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, NamedTuple

log = logging.getLogger(__name__)

CACHE_VARIABLE: Final = "NUMBA_CACHE_DIR"
"""A folder that the user has chosen; verified as the others are."""

MAX_KEYS: Final = 4
"""Keys whose code is retained, about 4 MiB each: brokers of several versions may run."""

VERSIONS: Final = ("numba", "llvmlite", "numpy")
SOURCES: Final = (
    "common/sysflag.py",
    "machine_code",
    "message",
    "remoting/protocol/codes.py",
    "remoting/protocol/header",
    "server/ingest/fields.py",
    "server/ingest/replying",
    "server/ingest/scanning",
    "store/format",
    "store/ingest",
    "store/pulling",
    "store/recovery/runs/vectorized_index.py",
)
"""Modules and packages below ``broker`` that the loops take code or constants from."""

_BROKER: Final = importlib.resources.files("broker")  # in a zip on the workers of Spark
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
PRIVATE: Final = 0o700
chosen: Final[list[Path | None]] = []
"""The folder in use, None for none; empty until it is needed."""


class UnsafeFolderError(Exception):
    """A folder that another user could have put code into."""


class CodeFolder(NamedTuple):
    """Where the code is; a ``temporary`` folder is removed after the code is loaded."""

    path: Path
    temporary: bool

    def close(self) -> None:
        """Remove the folder if it is temporary."""
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)


def use_folder(folder: Path) -> None:
    """Load and keep the machine code of modules that are imported from now on there."""
    chosen[:] = [folder]


def folder_in_use() -> Path | None:
    """Return the folder given to :func:`use_folder`, else the user's; None if there is none.

    A temporary folder would be of no use to later processes.
    """
    if not chosen:
        try:
            use_folder(_user_folder())
        except UnsafeFolderError as error:
            log.warning("machine code is not kept: %s", error)
            chosen.append(None)
        except (OSError, RuntimeError) as error:  # RuntimeError: no home
            log.info("machine code is not kept: %s", error)
            chosen.append(None)
    return chosen[0]


def keeps_code_of(module: str) -> bool:
    """Return whether the folder in use has machine code of a module's loops."""
    folder = folder_in_use()
    return folder is not None and any((folder / module).glob("*"))


def open_folder() -> CodeFolder:
    """Return a folder that only this user can write to; OSError if there is none at all."""
    try:
        return CodeFolder(_user_folder(), temporary=False)
    except UnsafeFolderError as error:
        log.warning("machine code is compiled for this process only: %s", error)
    except (OSError, RuntimeError) as error:  # RuntimeError: no home
        log.info("machine code is compiled for this process only: %s", error)
    return CodeFolder(Path(tempfile.mkdtemp(prefix="mqbroker-code-")), temporary=True)


def _user_folder() -> Path:
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return _prepare(Path(given))
    home = os.environ.get("XDG_CACHE_HOME", "")
    # The specification of XDG_CACHE_HOME demands that relative paths are ignored.
    base = Path(home) if os.path.isabs(home) else Path.home() / ".cache"
    keys = base / "mqadmin" / "machine-code"
    folder = _prepare(keys / cache_key())
    os.utime(folder)  # it is the newest one now
    _remove_old(keys, folder)
    return folder


def _prepare(folder: Path) -> Path:
    """Create a folder if it is missing, verify it, and return its real path."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(PRIVATE, exist_ok=True)
    if folder.is_symlink():
        raise UnsafeFolderError(f"{folder} is a symbolic link")
    real = folder.resolve()
    for parent in real.parents:
        _verify_parent(parent)
    _verify(real)
    for found in real.rglob("*"):
        _verify(found)
    with tempfile.TemporaryFile(dir=real):  # OSError if the file system is read-only or full
        return real


def _verify(path: Path) -> None:
    """UnsafeFolderError unless the path is a file or folder that only this user can write."""
    found = path.lstat()
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        raise UnsafeFolderError(f"{path} is neither a file nor a folder")
    if found.st_uid != os.geteuid():
        raise UnsafeFolderError(f"{path} belongs to another user ({found.st_uid})")
    if found.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(found.st_mode)
        raise UnsafeFolderError(f"{path} can be written by other users (mode {mode:o})")


def _verify_parent(path: Path) -> None:
    """UnsafeFolderError if another user could replace a folder in this one."""
    found = path.lstat()
    if found.st_uid not in (0, os.geteuid()):
        raise UnsafeFolderError(f"{path} belongs to another user ({found.st_uid})")
    if found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
        mode = stat.S_IMODE(found.st_mode)
        raise UnsafeFolderError(f"{path} can be written by other users (mode {mode:o})")


def _remove_old(keys: Path, used: Path) -> None:
    """Remove the code of all keys but the newest ones."""

    def age(folder: Path) -> float:
        with contextlib.suppress(OSError):
            return -folder.lstat().st_mtime
        return 0.0

    others = sorted((one for one in keys.iterdir() if one.name != used.name), key=age)
    for folder in others[MAX_KEYS - 1 :]:
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                folder.unlink()


def cache_key() -> str:
    """Return the name of everything that the machine code depends on."""
    digest = hashlib.sha256()
    parts = [sys.version, platform.machine(), _processor()]
    parts += [f"{name} {importlib.metadata.version(name)}" for name in VERSIONS]
    for part in parts:
        digest.update(part.encode() + b"\0")
    for name in SOURCES:
        for path, content in _contents(_BROKER / name, name):
            digest.update(path.encode() + b"\0")
            digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:32]


def _contents(place: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of a module, or of each module of a package."""
    if not place.is_dir():
        yield name, place.read_bytes()
        return
    for one in sorted(place.iterdir(), key=lambda one: one.name):
        if one.is_dir() or one.name.endswith(".py"):
            yield from _contents(one, f"{name}/{one.name}")


def _processor() -> str:
    """Return name and features of the processor, empty if the system does not report them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    first = text.split("\n\n", 1)[0].splitlines()
    return "\n".join(line for line in first if line.startswith(("model name", "flags", "Features")))
