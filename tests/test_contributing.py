"""The walks of .github/CONTRIBUTING.md and the map of README.md name files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONTRIBUTING = ROOT / ".github" / "CONTRIBUTING.md"
WALKS = ["a request code", "a command", "a file format", "a pipeline job"]
PATH = re.compile(r"`((?:broker|mqadmin|tests|scripts|man|\.ci|\.github)/[\w./-]+|README\.md)")


def walk(title: str) -> str:
    """The text of one section `## Add …`."""
    text = CONTRIBUTING.read_text(encoding="utf-8")
    return text.split(f"\n## Add {title}\n")[1].split("\n## ")[0]


def paths(text: str) -> list[str]:
    return [name.rstrip("./") for name in PATH.findall(text)]


@pytest.mark.parametrize("title", WALKS)
def test_every_file_of_a_walk_exists(title: str) -> None:
    named = paths(walk(title))
    assert len(set(named)) > 4, "a walk leads through the real files"
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_has_at_most_ten_steps(title: str) -> None:
    assert 5 <= len(re.findall(r"^\d+\. ", walk(title), re.MULTILINE)) <= 10


def test_every_script_is_listed() -> None:
    listed = set(re.findall(r"`scripts/(\w+)[ `]", CONTRIBUTING.read_text(encoding="utf-8")))
    scripts = {
        path.name
        for path in (ROOT / "scripts").iterdir()
        if path.is_file() and not path.name.startswith("_")
    }
    assert scripts - {"quickstart"} <= listed


@pytest.mark.parametrize("name", ["README.md", ".github/CONTRIBUTING.md"])
def test_files_named_in_a_document_exist(name: str) -> None:
    named = paths((ROOT / name).read_text(encoding="utf-8"))
    assert named
    assert [one for one in named if not (ROOT / one).exists()] == []


def test_the_modules_that_run_first_exist(request: pytest.FixtureRequest) -> None:
    """A renamed module would run last, alone on one worker."""
    plugin = request.config.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))
    assert [name for name in plugin.LONGEST if not (ROOT / "tests" / name).is_file()] == []
