"""Tasks and concepts: their commands exist."""

import shlex

import pytest

from mqadmin.command.framework.quick import parse
from mqadmin.command.guide.concepts import CONCEPTS, TASKS

LINES = [
    *(command for tasks in TASKS.values() for _, command in tasks),
    *(line for concept in CONCEPTS.values() for line in concept.commands),
]


@pytest.mark.parametrize("line", LINES)
def test_every_command_is_understood(line: str) -> None:
    for command in line.replace("; …", "").split("; "):
        words = shlex.split(command)
        assert words[0] == "mqadmin"
        assert parse(words[1:]) is not None, command


def test_the_five_concepts_are_explained() -> None:
    assert list(CONCEPTS) == ["offsets", "retries", "lag", "retention", "durability"]
    assert all(len(concept.text) > 400 for concept in CONCEPTS.values())
