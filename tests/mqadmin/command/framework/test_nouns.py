"""The table of nouns: the one place that imports the module of a noun."""

import subprocess
import sys

import pytest

from mqadmin.command.framework.declare import Noun
from mqadmin.command.framework.nouns import JAVA_NOUNS, NOUNS, load_java_verb, load_noun
from mqadmin.command.java.names import JAVA_NAMES


@pytest.mark.parametrize("name", NOUNS)
def test_a_noun_is_declared_by_the_module_of_its_entry(name: str) -> None:
    noun = load_noun(name)
    assert isinstance(noun, Noun)
    assert noun.name == name
    assert load_noun(name) is noun


def test_one_noun_only_is_a_java_name() -> None:
    assert {name for name in NOUNS if name in JAVA_NAMES} == JAVA_NOUNS - {"java"}
    assert load_java_verb(["topic", "--help"]) is None
    assert load_java_verb(["producer", "-b", "h:1"]) is not None


PROGRAM = """
import sys
from mqadmin.command.framework.nouns import load_noun
load_noun("msg", "query")
print(*sys.modules)
"""


def test_a_verb_of_the_nouns_own_module_loads_no_other_module() -> None:
    """Each module of verbs may import libraries: the command line imports those of one verb."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            PROGRAM,
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = set(done.stdout.split())
    assert "mqadmin.command.message" in loaded
    others = {f"mqadmin.command.{module}" for module in NOUNS["msg"].verbs.values()}
    assert not others & loaded
