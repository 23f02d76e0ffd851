"""Surgery's door to the disk: new directories, links and sparse copies, writes into them."""

import errno
import os
import shutil
from pathlib import Path
from typing import Final

from broker.errors import ConfigError, DiskFullError, RocketMQError, StoreError
from mqadmin.inspector.files import unreadable

PIECE: Final = 1 << 20
# Stands in a directory while it is being made.
CLAIM: Final = ".mqadmin-making"
# Ask the file system for a copy that shares its blocks until one side is written (Linux FICLONE).
_FICLONE: Final = 0x40049409


class Output:
    """A directory that is being made; refuses one that exists and is not empty.

    One that a killed run left half made is begun anew: its claim is there, and nobody holds it.

    ``linked``, ``copied`` and ``written`` count files; links are made only where asked for.
    """

    def __init__(self, root: Path, *, links: bool = True) -> None:
        self.root = root
        self.links = links
        self.linked = 0
        self.copied = 0
        self.written = 0
        self._held = -1
        try:
            self._claim()
        except OSError as error:
            raise _unwritable(root, error) from error

    def _claim(self) -> None:
        """Take the directory for this run alone; of two at once only one gets it."""
        root = self.root
        if self._is_left_over():
            for path in root.iterdir():
                if path.name != CLAIM:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            return
        if not root.exists() or (root.is_dir() and not any(root.iterdir())):
            root.mkdir(parents=True, exist_ok=True)
            marker = root / CLAIM
            try:
                self._held = os.open(marker, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC)
            except FileExistsError:
                pass
            else:
                if [path.name for path in root.iterdir()] != [CLAIM]:
                    self._let_go()
                elif _lock(self._held) is not False:
                    return
                else:
                    os.close(self._held)  # another run was quicker and has it now
                    self._held = -1
        raise ConfigError(
            f"{root} exists and is not empty", "name a directory that does not exist yet"
        )

    def _is_left_over(self) -> bool:
        """Whether a run that was killed left the directory half made; it is held from now on."""
        try:
            self._held = os.open(self.root / CLAIM, os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if _lock(self._held) is True and (self.root / CLAIM).exists():
            return True
        os.close(self._held)
        self._held = -1
        return False

    def _let_go(self) -> None:
        if self._held >= 0:
            (self.root / CLAIM).unlink(missing_ok=True)
            os.close(self._held)
            self._held = -1

    def path(self, name: str) -> Path:
        """A path below the root; its folder exists afterwards."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def take(self, source: Path, name: str, *, sealed: bool) -> Path:
        """Bring a file over: linked if ``sealed`` (nobody writes to it again), else copied."""
        target = self.path(name)
        try:
            if sealed and self.links:
                try:
                    os.link(source, target, follow_symlinks=True)
                    self.linked += 1
                    return target
                except OSError:
                    pass  # another file system, or one without links
            copy_file(source, target)
        except OSError as error:
            raise _unwritable(target, error) from error
        self.copied += 1
        return target

    def write(self, name: str, data: bytes) -> Path:
        """A small new file."""
        target = self.path(name)
        try:
            target.write_bytes(data)
        except OSError as error:
            raise _unwritable(target, error) from error
        self.written += 1
        return target

    def create(self, name: str, size: int) -> "Blocks":
        """A new file of ``size`` bytes, all zeros and without blocks, open for writing."""
        target = self.path(name)
        try:
            fd = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            os.ftruncate(fd, size)
        except OSError as error:
            raise _unwritable(target, error) from error
        self.written += 1
        return Blocks(fd, target)

    def open(self, name: str) -> "Blocks":
        """A file of this output, open for writing; a linked one becomes a copy first."""
        target = self.root / name
        try:
            if target.stat().st_nlink > 1:
                own = target.with_name(target.name + ".copying")
                copy_file(target, own)
                own.replace(target)
            return Blocks(os.open(target, os.O_RDWR | os.O_CLOEXEC), target)
        except OSError as error:
            raise _unwritable(target, error) from error

    def sync(self) -> None:
        """Everything to the disk: files, then folders; the directory is whole from now on."""
        for folder, _, names in os.walk(self.root, topdown=False):
            for name in names:
                _sync(os.path.join(folder, name))
            _sync(folder)
        self._let_go()
        _sync(str(self.root))
        _sync(str(self.root.parent))

    def discard(self) -> None:
        """Remove what was made."""
        shutil.rmtree(self.root, ignore_errors=True)
        if self._held >= 0:
            os.close(self._held)
            self._held = -1


class Blocks:
    """An open file of the output."""

    def __init__(self, fd: int, path: Path) -> None:
        self.fd = fd
        self.path = path

    def __enter__(self) -> "Blocks":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def put(self, position: int, data: bytes | memoryview) -> None:
        """Write ``data`` at ``position``; StoreError if that fails."""
        try:
            view = memoryview(data)
            while len(view):
                done = os.pwrite(self.fd, view, position)
                position += done
                view = view[done:]
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def clear(self, position: int, end: int) -> None:
        """Make ``[position, end)`` zeros; at the end of the file its blocks are given back."""
        try:
            size = os.fstat(self.fd).st_size
            if end >= size:
                os.ftruncate(self.fd, position)
                os.ftruncate(self.fd, size)
                return
        except OSError as error:
            raise _unwritable(self.path, error) from error
        while position < end:
            piece = min(end - position, PIECE)
            self.put(position, bytes(piece))
            position += piece

    def resize(self, size: int) -> None:
        """Give the file another length; what is new is zeros."""
        try:
            os.ftruncate(self.fd, size)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def close(self) -> None:
        """Close the file."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def copy_file(source: Path, target: Path) -> None:
    """Copy a file with its holes and its times; StoreError if the source cannot be read.

    Times matter: brokers delete log files by them.
    """
    try:
        read = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(source, error) from error
    try:
        status = os.fstat(read)
        write = os.open(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            if not _clone(read, write):
                os.ftruncate(write, status.st_size)
                _copy_data(source, (read, write), status.st_size)
        finally:
            os.close(write)
    finally:
        os.close(read)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _lock(fd: int) -> bool | None:
    """Hold a file for this process alone, until it ends; False if another one does.

    None where locks are not known.
    """
    try:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _clone(read: int, write: int) -> bool:
    try:
        import fcntl

        fcntl.ioctl(write, _FICLONE, read)
    except (ImportError, OSError):
        return False
    return True


def _copy_data(source: Path, files: tuple[int, int], size: int) -> None:
    read, write = files
    at = 0
    while at < size:
        try:
            at = os.lseek(read, at, os.SEEK_DATA)
            end = os.lseek(read, at, os.SEEK_HOLE)
        except OSError:
            if at:
                return  # only holes up to the end
            end = size  # the file system does not know holes
        while at < end:
            try:
                piece = os.pread(read, min(PIECE, end - at), at)
            except OSError as error:
                raise unreadable(source, error) from error
            if not piece:
                return
            if any(piece):
                os.pwrite(write, piece, at)
            at += len(piece)


def _sync(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(Path(path), error) from error
    try:
        os.fsync(fd)
    except OSError as error:
        raise _unwritable(Path(path), error) from error
    finally:
        os.close(fd)


def is_full(error: OSError) -> bool:
    """Whether the disk, or a quota on it, has no more room."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _unwritable(path: Path, error: OSError) -> RocketMQError:
    what = f"cannot write {path}: {error.strerror or error}"
    hint = "check free space and permissions; the source is untouched"
    if is_full(error):
        return DiskFullError(what, hint, path=str(path))
    if error.errno == errno.EIO:
        return StoreError(what, hint, path=str(path))
    return ConfigError(what, hint)  # a place that cannot be written to was named
