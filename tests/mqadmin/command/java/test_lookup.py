import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.command.java.lookup import java_verb, usage
from mqadmin.command.java.names import JAVA_NAMES

Run = Callable[..., Any]


def values(*words: str) -> dict[str, str]:
    found = java_verb(words)
    assert found is not None
    line = found[1]
    assert line.fault is None, line.fault
    return line.values


def fault(*words: str) -> str:
    found = java_verb(words)
    assert found is not None
    assert found[1].fault is not None
    return found[1].fault.message


@pytest.mark.parametrize(
    "words",
    [
        ("-t", "T"),
        ("-tT",),
        ("-t=T",),
        ("--topic", "T"),
        ("--topic=T",),
        ("-topic", "T"),
        ("--top", "T"),
    ],
)
def test_a_value_is_accepted_in_every_form_of_commons_cli(words: tuple[str, ...]) -> None:
    assert values("topicRoute", *words) == {"t": "T"}


def test_names_are_found_in_any_case_with_and_without_the_noun() -> None:
    for words in (("topicroute",), ("TOPICROUTE",), ("java", "topicRoute")):
        assert values(*words, "-t", "T") == {"t": "T"}


def test_other_words_have_no_java_name() -> None:
    for words in (("topic", "list"), ("java",), ("java", "list"), ("java", "nope"), ("help",)):
        assert java_verb(words) is None


def test_flags_may_be_joined_and_followed_by_true() -> None:
    assert values("statsAll", "-a", "true") == {"a": "true"}
    assert values("exportMetadata", "-gst") == {"g": "true", "s": "true", "t": "true"}


def test_a_negative_number_is_a_value() -> None:
    assert values("resetOffsetByTime", "-g", "g", "-t", "t", "-s", "-1")["s"] == "-1"


def test_long_short_options_are_found_before_joined_ones() -> None:
    line = values("updateStaticTopic", "-t", "T", "-qn", "4", "-b", "a", "-mf", "f")
    assert line == {"t": "T", "qn": "4", "b": "a", "mf": "f"}


def test_global_options_keep_their_long_names() -> None:
    found = java_verb(["topicRoute", "-t", "T", "-n", "a:1;b:2", "--timeout", "5s", "--tls"])
    assert found is not None
    assert found[1].options == {"namesrv": "a:1;b:2", "timeout": "5s", "tls": True}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "-t/--topic is missing"),
        (("-t",), "-t/--topic needs a value"),
        (("-t", "-l"), "-t/--topic needs a value"),
        (("-t", "T", "-x"), "unknown option -x"),
        (("-t", "T", "--nope"), "unknown option --nope"),
        (("-t", "T", "word"), "unexpected word 'word'"),
        (("-t", "T", "-l", "false"), "unexpected word 'false'"),
        (("-t", "T", "--output", "json"), "--output does not apply"),
        (("-t", "T", "--dry-run"), "--dry-run does not apply"),
    ],
)
def test_a_line_that_is_not_valid_is_a_fault(words: tuple[str, ...], reason: str) -> None:
    assert reason in fault("topicRoute", *words)


def test_exactly_one_of_an_exclusive_group_is_accepted() -> None:
    assert "is missing" in fault("updateTopic", "-t", "T")
    assert "exclude each other" in fault("updateTopic", "-t", "T", "-b", "x", "-c", "y")


def test_a_prefix_of_two_long_names_is_ambiguous() -> None:
    assert "ambiguous" in fault("updateSubGroup", "-g", "g", "--consume", "x")


def test_a_fault_is_status_2_with_a_hint(mqadmin: Run) -> None:
    done = mqadmin("topicRoute")
    assert (done.status, done.out) == (2, "")
    assert "hint: mqadmin help topicRoute" in done.err


@pytest.mark.parametrize(
    "words", [("help", "topicRoute"), ("topicRoute", "-h"), ("java", "topicRoute", "--help")]
)
def test_help_is_printed_without_required_options(mqadmin: Run, words: tuple[str, ...]) -> None:
    done = mqadmin(*words)
    assert (done.status, done.err) == (0, "")
    assert done.out == usage(JAVA_NAMES["topicroute"])
    assert "mqadmin topic route" in done.out


def test_global_options_before_the_name_count(mqadmin: Run) -> None:
    done = mqadmin("-o", "json", "topicRoute", "-t", "T")
    assert done.status == 2
    assert "--output" in done.err


def test_nouns_load_nothing_of_java() -> None:
    code = (
        "import sys; from mqadmin.command.framework.quick import parse;"
        "assert parse(['topic', 'list']); assert parse(['cluster', 'list']);"
        "print([name for name in sys.modules if '.java' in name and 'command' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
