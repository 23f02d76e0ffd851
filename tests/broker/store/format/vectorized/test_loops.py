"""The compiled loops are used if numba is installed and can be imported."""

import importlib.util
import sys
from collections.abc import Iterator

import pytest

from broker.store.format.vectorized.loops import compiled


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    compiled.cache_clear()
    yield
    compiled.cache_clear()


def test_without_numba_there_are_none(monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not compiled()
    assert not caplog.records


def test_a_numba_that_cannot_be_imported_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog
) -> None:
    """For example because it refuses the installed numpy."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "numba", None)
    assert [compiled(), compiled()] == [False, False]
    (warning,) = caplog.records
    assert "numba" in warning.getMessage()
    assert "pip install" in warning.getMessage()


def test_an_installed_numba_is_used() -> None:
    pytest.importorskip("numba", reason="the compiled loops need the extra 'fast'")
    assert compiled()
