"""Fixtures of the verification tests: a sound store, and its findings by both implementations."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from mqadmin.inspector.damage import AT_END, KINDS, WHOLE_LOG
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.inspector.verify.verifier import Verification, VerifyOptions, verify
from tests.support.made_store import MadeStore, fingerprint

WAYS = [False, True] if has_columns() else [False]


class Found(NamedTuple):
    """A finding without its text; ``path`` is relative to the store."""

    kind: str
    severity: str
    path: str
    physical_offset: int | None
    length: int | None


class Checked(NamedTuple):
    """The result of a verification: its findings, in order, and the whole of it."""

    found: list[Found]
    result: Verification


@pytest.fixture
def sound(tmp_path: Path) -> MadeStore:
    """A store without findings: 60 messages in 4 queues and 3 IndexFiles, cleanly stopped."""
    store = MadeStore(tmp_path / "store")
    for number in range(60):
        store.put("TopicA" if number % 3 else "TopicB", number % 2)
    store.write_all()
    return store


@pytest.fixture
def check() -> Callable[..., Checked]:
    """``check(root, **options)``: verify with and without columns; both must find the same.

    The store must be unchanged afterwards, and every finding must have the advice of its kind.
    """

    def run(root: Path, **options: object) -> Checked:
        before = fingerprint(root)
        results = [
            verify(StoreDirectory(root), VerifyOptions(columns=way, **options))  # type: ignore[arg-type]
            for way in WAYS
        ]
        for one, other in itertools.pairwise(results):
            assert one.findings == other.findings
            assert one.broken_queues == other.broken_queues
            assert one.losses == other.losses
        assert fingerprint(root) == before
        for row in results[-1].findings:
            advice = KINDS[row.kind].advice
            assert row.suggestion in (advice, AT_END, WHOLE_LOG), row
            assert row.detail
        found = [
            Found(
                row.kind,
                row.severity,
                str(Path(row.path).relative_to(root)),
                row.physical_offset,
                row.length,
            )
            for row in results[-1].findings
        ]
        return Checked(found, results[-1])

    return run
