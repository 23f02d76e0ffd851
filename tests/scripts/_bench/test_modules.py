"""The benches import names from each other that exist; read, as some need packages of an extra."""

import ast
from pathlib import Path

import pytest

from tests.support.bench_modules import FOLDER

FILES = {path.stem: path for path in sorted(FOLDER.glob("*.py"))}


def top_level_names(path: Path) -> set[str]:
    """The names that a module defines or imports."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {one.asname or one.name for one in node.names}
        else:
            names |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names


@pytest.mark.parametrize("name", FILES)
def test_a_bench_finds_the_names_that_it_imports(name: str) -> None:
    tree = ast.parse(FILES[name].read_text(encoding="utf-8"))
    missing = [
        f"{node.module}.{one.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in FILES
        for one in node.names
        if one.name not in top_level_names(FILES[node.module])
    ]
    assert missing == []


def test_the_benches_import_from_each_other() -> None:
    assert "free_port" in top_level_names(FILES["local_broker"])
    assert {"report", "scale", "replication"} <= {*FILES}
