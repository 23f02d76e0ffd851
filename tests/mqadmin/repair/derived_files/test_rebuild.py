"""Rebuilt files are those that Java wrote, by the fast and by the slow path."""

import shutil
from pathlib import Path

import pytest

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.repair.derived_files import build_index, rebuild
from mqadmin.repair.store_repair import make_plan, repair


def test_a_rebuilt_queue_and_index_are_the_bytes_that_java_wrote(
    base_store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = base_store("kill9-async-498")
    shutil.copytree(root / "consumequeue", tmp_path / "queues")
    index = [path.read_bytes() for path in sorted((root / "index").iterdir())]
    shutil.rmtree(root / "consumequeue")
    ways = [False, True] if has_columns() else [False]
    for way in ways:
        monkeypatch.setattr(rebuild, "has_columns", lambda way=way: way)
        monkeypatch.setattr(build_index, "has_columns", lambda way=way: way)
        plan = make_plan(StoreDirectory(root))
        plan.rebuild_index = True
        result = repair(plan, tmp_path / f"out-{way}")
        assert result.ok
        for path in sorted((tmp_path / "queues").rglob("0*")):
            own = tmp_path / f"out-{way}" / "consumequeue" / path.relative_to(tmp_path / "queues")
            if path.is_file() and path.read_bytes().strip(b"\0"):
                assert own.read_bytes() == path.read_bytes()
        made = [p.read_bytes() for p in sorted((tmp_path / f"out-{way}" / "index").iterdir())]
        assert len(made) == len(index)
        for own, java in zip(made, index, strict=True):
            # The first entry of a rolled file is reckoned from the file before, in Java's.
            assert own[:200] == java[:200]
            assert own[240:] == java[240:]
            assert own[220:232] == java[220:232]
            assert own[236:240] == java[236:240]
