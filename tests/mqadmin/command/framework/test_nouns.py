"""The table of nouns: the one place that imports the module of a noun."""

import pytest

from mqadmin.command.framework.declare import Noun
from mqadmin.command.framework.nouns import NOUNS, load_noun


@pytest.mark.parametrize("name", NOUNS)
def test_a_noun_is_declared_by_the_module_of_its_entry(name: str) -> None:
    noun = load_noun(name)
    assert isinstance(noun, Noun)
    assert noun.name == name
    assert load_noun(name) is noun
