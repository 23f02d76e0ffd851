"""Disk access of repair: create directories, link and sparsely copy files, write into copies."""

import errno
import os
import shutil
from pathlib import Path
from typing import Final

from broker.errors import ConfigError, DiskFullError, RocketMQError, StoreError
from mqadmin.inspector.files import unreadable

PIECE: Final = 1 << 20
# Marker file (claim) that exists in a directory until it is complete.
CLAIM: Final = ".mqadmin-making"
# Linux ioctl FICLONE: a copy that shares blocks until one side is written.
_FICLONE: Final = 0x40049409


def check_output(root: Path) -> None:
    """Raise ConfigError for a directory that is not empty and not incomplete; writes nothing."""
    is_empty = not root.exists() or (root.is_dir() and not any(root.iterdir()))
    if not is_empty and not (root / CLAIM).exists():
        raise _taken(root)


def _taken(root: Path) -> ConfigError:
    return ConfigError(
        f"{root} exists and is not empty", "name a directory that does not exist yet"
    )


class Output:
    """A directory under construction; ConfigError if it exists and is not empty.

    An incomplete directory of a killed run is emptied and reused: its claim exists, and no process
    has locked it.

    ``linked``, ``copied`` and ``written`` count files; hard links are used only with ``links``.
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
        """Claim the directory for this run; of two concurrent runs only one succeeds."""
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
                # Another run may have completed, and removed its claim, since the check above.
                if [path.name for path in root.iterdir()] != [CLAIM]:
                    self._let_go()
                elif _lock(self._held) is not False:
                    return
                else:
                    os.close(self._held)  # another run has locked the claim first
                    self._held = -1
        raise _taken(root)

    def _is_left_over(self) -> bool:
        """Whether the directory is incomplete and its run was killed; if so, lock its claim."""
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
        """Return a path below the root; creates its folder."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def take(self, source: Path, name: str, *, sealed: bool) -> Path:
        """Link a file if ``sealed`` (brokers do not write to it any more), else copy it."""
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
        """Write a small file, replacing an existing one."""
        target = self.path(name)
        try:
            target.write_bytes(data)
        except OSError as error:
            raise _unwritable(target, error) from error
        self.written += 1
        return target

    def create(self, name: str, size: int) -> "Blocks":
        """Create a sparse file of ``size`` zero bytes, open for writing."""
        target = self.path(name)
        try:
            fd = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            os.ftruncate(fd, size)
        except OSError as error:
            raise _unwritable(target, error) from error
        self.written += 1
        return Blocks(fd, target)

    def open(self, name: str) -> "Blocks":
        """Open a file of this output for writing; a linked one is replaced by a copy first.

        Writing through a hard link would modify the damaged store.
        """
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
        """Fsync all files, then folders, and remove the claim: the directory is complete."""
        for folder, _, names in os.walk(self.root, topdown=False):
            for name in names:
                _sync(os.path.join(folder, name))
            _sync(folder)
        self._let_go()
        _sync(str(self.root))
        _sync(str(self.root.parent))

    def discard(self) -> None:
        """Remove the directory."""
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
        """Zero the range ``[position, end)``; at the end of the file its blocks are freed."""
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
        """Change the length of the file; added bytes are zeros."""
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
    """Copy a file with its holes and times; StoreError if the source cannot be read.

    The modification time is preserved because brokers delete expired log files by it.
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
    """Lock a file exclusively until it is closed; False if another process has locked it.

    None if locks are not supported.
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
                return  # only a hole up to the end
            end = size  # the file system does not support SEEK_DATA
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
    """Whether the disk or a quota is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _unwritable(path: Path, error: OSError) -> RocketMQError:
    message = f"cannot write {path}: {error.strerror or error}"
    hint = "check free space and permissions; the source is untouched"
    if is_full(error):
        return DiskFullError(message, hint, path=str(path))
    if error.errno == errno.EIO:
        return StoreError(message, hint, path=str(path))
    return ConfigError(message, hint)  # the given path is not writable
