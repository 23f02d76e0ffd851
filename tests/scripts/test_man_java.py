"""mqadmin-java.7 and its Markdown form have every Java name that is declared, with ours."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from mqadmin.command.java.names import JAVA_NAMES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def man_java() -> ModuleType:
    path = ROOT / "scripts" / "_man_java.py"
    spec = importlib.util.spec_from_file_location("_man_java", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def declared() -> dict[str, str]:
    return {row.name: row.equivalent for row in JAVA_NAMES.values()}


def test_the_man_page_has_each_name_once_with_the_declared_command() -> None:
    page = (ROOT / "man" / "mqadmin-java.7").read_text(encoding="utf-8").replace("\\-", "-")
    rows = re.findall(r"^(?:T\{\n)?(\w+)(?:\nT\})?@(?:T\{\n)?mqadmin (.+)$", page, re.MULTILINE)
    assert dict(rows) == {name: ours or name for name, ours in declared().items()}
    assert len(rows) == len(declared())


def test_the_markdown_has_each_name_once(man_java: ModuleType) -> None:
    found: dict[str, str] = {}
    *rows, alone = list(man_java.markdown())[2:]
    for line in rows:
        names, command = line.strip("| ").split(" | ")
        for name in names.split():
            assert found.setdefault(name.strip("`"), command.strip("`")) == command.strip("`")
    for name in alone.strip("| ").split(" | ")[0].split():
        assert found.setdefault(name.strip("`"), "") == ""
    assert found == declared()


def test_a_name_belongs_to_exactly_one_section(man_java: ModuleType) -> None:
    names = [row.name for rows in man_java.sections().values() for row in rows]
    assert sorted(names) == sorted(declared())
