"""The words besides nouns: in the help and in the completion, and never a noun."""

from collections.abc import Callable
from typing import Any

from mqadmin.command.framework.completion import candidates
from mqadmin.command.framework.nouns import NOUNS, WORDS
from mqadmin.command.guide.commands import guide_commands


def test_every_word_is_a_command_in_help_and_completion(mqadmin: Callable[..., Any]) -> None:
    assert list(guide_commands()) == list(WORDS)
    assert not set(WORDS) & set(NOUNS)
    shown = mqadmin("--help").out
    for word, sentence in WORDS.items():
        assert f"  {word} " in shown
        assert (word, sentence) in candidates([word], {})
        assert mqadmin(word, "--help").status == 0
