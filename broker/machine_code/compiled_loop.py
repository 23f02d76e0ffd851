"""The decorators of compiled loops; they need numba (extra ``fast``).

::

    @compiled_loop ─ first call with new types ─┬─ code in the folder: loaded
                                                └─ none, or damaged: compiled, then kept there

numba's own cache uses the folder of the module, compares the source of a loop but not the
constants that it imports, and raises every error of its files at the first call: without a folder
to write to, with a file that a power cut truncated, or with a full disk a broker could not recover
its store. Here the folder is that of :mod:`broker.machine_code.code_cache`, whose name depends on
all sources. Each file ends with its SHA-256, which numba does not read; a file without it is
removed, and its loop compiled again. A loop whose code cannot be kept is compiled per process.
"""

import contextlib
import hashlib
import io
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

from numba import config, njit
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    _CacheLocator,
)

from broker.machine_code import code_cache
from broker.machine_code.code_cache import PRIVATE

log = logging.getLogger(__name__)

PRIVATE_FILE: Final = 0o600
SEAL_SIZE: Final = hashlib.sha256().digest_size


def remove_unsealed(path: str) -> None:
    """Remove a file that does not end with the SHA-256 of the bytes before; OSError."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return
    if hashlib.sha256(content[:-SEAL_SIZE]).digest() != content[-SEAL_SIZE:]:
        log.info("%s: damaged machine code, removed", path)
        os.unlink(path)


class _SealedFiles(IndexDataCacheFile):  # type: ignore[misc]
    """The files of one loop, one per types of its arguments.

    numba numbers them, and has the numbers in an index. Two processes that compile for different
    types at once may take the same number; one of them then runs the code of the other types later.
    Here the types are part of the name.
    """

    def save(self, key: Any, data: Any) -> None:
        self._save_data(self._name(key), data)

    def load(self, key: Any) -> Any:
        name = self._name(key)
        remove_unsealed(self._data_path(name))
        try:
            return self._load_data(name)
        except FileNotFoundError:
            return None

    def _name(self, key: Any) -> str:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()
        return str(self._data_name_pattern.format(number=int(digest[:16], 16)))

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        with super()._open_for_write(filepath) as file:
            content = io.BytesIO()
            yield content
            data = content.getvalue()
            os.fchmod(file.fileno(), PRIVATE_FILE)
            file.write(data + hashlib.sha256(data).digest())


class _Locator(_CacheLocator):  # type: ignore[misc]
    """The folder of a module's loops; it does not depend on where the module is.

    The name of the folder above it changes with all sources, so no time of a file is compared.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        folder = code_cache.folder_in_use()
        assert folder is not None, "a loop has a cache only if there is a folder"
        self._path = str(folder / function.__module__)
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> "_Locator":
        return cls(py_func)

    def ensure_cache_path(self) -> None:
        os.makedirs(self._path, PRIVATE, exist_ok=True)

    def get_cache_path(self) -> str:
        return self._path

    def get_source_stamp(self) -> str:
        return ""

    def get_disambiguator(self) -> str:
        return str(self._line)


class _LoopCacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes: Final = [_Locator]


class _LoopCache(FunctionCache):  # type: ignore[misc]
    """numba's cache of one loop; a file that cannot be read or written is ignored."""

    _impl_class = _LoopCacheImpl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        locator = self._impl.locator
        self._cache_file = _SealedFiles(
            locator.get_cache_path(), self._impl.filename_base, locator.get_source_stamp()
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # whatever numba's reader raises, the loop can be compiled
            self._give_up("read", error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:  # for example a full disk: the code is in memory
            self._give_up("kept", error)

    def _give_up(self, verb: str, error: Exception) -> None:
        self.disable()
        log.warning("%s: machine code cannot be %s: %s", self.cache_path, verb, error)


def _compile(function: Callable[..., Any], inline: str) -> Any:
    loop = njit(nogil=True, inline=inline)(function)
    if not config.DISABLE_JIT and code_cache.folder_in_use() is not None:
        loop._cache = _LoopCache(function)  # as Dispatcher.enable_caching sets numba's
    return loop


def compiled_loop(function: Callable[..., Any]) -> Any:
    """Compile a function of arrays and numbers at its first call; it runs without the GIL."""
    return _compile(function, "never")


def inlined_loop(function: Callable[..., Any]) -> Any:
    """Compile a function as part of each compiled loop that calls it."""
    return _compile(function, "always")
