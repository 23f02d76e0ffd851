"""Fixtures of the inspector tests: made stores, and a guard that nothing in them changes."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.made_store import MadeStore, fingerprint


@pytest.fixture
def make_store(tmp_path: Path) -> Callable[..., MadeStore]:
    """``make_store(file_size=..., start=...)``: an empty store to put messages into."""

    def make(name: str = "store", **settings: int) -> MadeStore:
        return MadeStore(tmp_path / name, **settings)

    return make


@pytest.fixture
def made(make_store: Callable[..., MadeStore]) -> MadeStore:
    """A written store: 40 messages of two topics over three log files, and a spare file."""
    store = make_store()
    for number in range(40):
        store.put("TopicA" if number % 3 else "TopicB", number % 2)
    store.write()
    return store


@pytest.fixture
def untouched() -> Iterator[Callable[[Path], None]]:
    """``untouched(folder)``: at the end of the test the folder must be as it is now."""
    kept: list[tuple[Path, dict[str, Any]]] = []

    def watch(folder: Path) -> None:
        kept.append((folder, fingerprint(folder)))

    yield watch
    for folder, before in kept:
        assert fingerprint(folder) == before


@pytest.fixture
def forbid(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """``forbid(path)``: opening the file fails from now on."""

    def make(path: Path) -> None:
        before = os.open

        def refuse(name: Any, *args: Any, **kwargs: Any) -> int:
            if Path(name) == path:
                raise PermissionError(13, "Permission denied", str(name))
            return before(name, *args, **kwargs)

        monkeypatch.setattr("mqadmin.inspector.files.os.open", refuse)

    return make
