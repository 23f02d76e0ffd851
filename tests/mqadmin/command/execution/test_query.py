"""-o jsonpath=EXPR on the command line."""

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def topics(online: Run) -> Run:
    for topic in ("jp-a", "jp-b"):
        online("topic", "create", topic, "--queues", "1", "--yes", "--if-not-exists")
    return online


@pytest.mark.parametrize("words", [("-o", "jsonpath="), ("-ojsonpath=",), ("--output=jsonpath=",)])
def test_the_expression_selects_from_the_json_document(topics: Run, words: tuple[str, ...]) -> None:
    option = [*words[:-1], words[-1] + "$.items[*].topic"]
    done = topics("topic", "list", "jp-*", *option)
    assert (done.status, done.out) == (0, "jp-a\njp-b\n")


def test_the_variable_sets_it_too(topics: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQADMIN_OUTPUT", "jsonpath=$.queues[*].perm")
    assert topics("topic", "route", "jp-a").out == "6\n"


def test_no_match_is_status_1(topics: Run) -> None:
    done = topics("topic", "list", "jp-*", "-o", "jsonpath=$.items[*].nosuch")
    assert (done.status, done.out) == (1, "")
    assert "selects nothing" in done.err


def test_a_bad_expression_names_its_position_before_anything_changes(topics: Run) -> None:
    words = ("topic", "create", "jp-never", "--queues", "1", "--yes")
    done = topics(*words, "-o", "jsonpath=$.items[")
    assert (done.status, done.out) == (2, "")
    assert "-o jsonpath=$.items[: position 9: " in done.err
    assert topics("topic", "show", "jp-never").status == 1


def test_another_word_is_not_a_format(topics: Run) -> None:
    for word in ("jsonpath", "xml", "json=$"):
        done = topics("topic", "list", "-o", word)
        assert done.status == 2
        assert "jsonpath=EXPR" in done.err


def test_columns_do_not_apply_but_the_order_does(topics: Run) -> None:
    option = ("-o", "jsonpath=$.items[*].topic")
    assert topics("topic", "list", "jp-*", "--columns", "topic", *option).status == 2
    done = topics("topic", "list", "jp-*", "--sort", "topic:desc", *option)
    assert done.out == "jp-b\njp-a\n"


def test_an_endless_command_is_refused(topics: Run) -> None:
    done = topics("msg", "tail", "jp-a", "-o", "jsonpath=$.items[*].body")
    assert done.status == 2
    assert "one document" in done.err
