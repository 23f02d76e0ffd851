import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.admin.result import Listing
from mqadmin.admin.topic import TopicRecord
from mqadmin.command.framework.completion import SCRIPTS, answer, candidates

Run = Callable[..., Any]


def names(*words: str, **environ: str) -> list[str]:
    return [value for value, _ in candidates(list(words), environ)]


def test_the_first_word_is_a_noun() -> None:
    assert "topic" in names("")
    assert names("top") == ["topic"]
    assert names("-n", "h:1", "top") == ["topic"]


def test_the_second_word_is_a_verb() -> None:
    assert "create" in names("topic", "")
    assert names("msg", "dec") == ["decode-id"]
    assert names("broker", "")[:3] == ["status", "config", "ha"]
    assert names("broker", "config", "") == ["show", "set", "diff"]


def test_options_are_the_verbs_own_and_the_global_ones() -> None:
    found = names("topic", "create", "x", "--")
    assert "--queues" in found
    assert "--namesrv" in found
    assert names("topic", "create", "x", "--if") == ["--if-not-exists"]


def test_an_option_given_is_not_offered_again_unless_it_may_be_repeated() -> None:
    found = names("topic", "create", "x", "--perm", "rw", "--attribute", "+a=b", "--")
    assert "--perm" not in found
    assert "--attribute" in found


def test_choices_are_offered_with_and_without_an_equals_sign() -> None:
    assert names("topic", "list", "-o", "") == [
        "table",
        "wide",
        "json",
        "ndjson",
        "yaml",
        "csv",
        "markdown",
        "schema",
        "prometheus",
    ]
    assert names("topic", "list", "--output=js") == ["--output=json"]
    assert names("store", "inspect", "d", "--body", "h") == ["hex"]


def test_files_are_the_shells_business() -> None:
    assert names("store", "inspect", "") == [":files"]
    assert names("msg", "send", "t", "--body-file", "") == [":files"]


def test_contexts_come_from_the_file(mqadmin: Run, tmp_path: Path) -> None:
    mqadmin("context", "set", "test", "-n", "h:1")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    assert names("context", "use", "", **environ) == ["test"]
    assert names("--context", "t", **environ) == ["test"]


def test_topics_come_from_the_cluster_in_a_short_time(admin: Any) -> None:
    admin.answers["topic.list"] = Listing(
        items=[TopicRecord(topic="orders"), TopicRecord(topic="other")]
    )
    assert names("topic", "show", "or", "-n", "h:1", "") == []
    assert names("topic", "show", "or") == ["orders"]
    assert admin.settings.timeout_ms <= 1000


def test_the_limit_counts_the_names_that_match(admin: Any) -> None:
    topics = [TopicRecord(topic=f"{kind}{number:04d}") for kind in "az" for number in range(1500)]
    admin.answers["topic.list"] = Listing(items=topics)
    assert names("topic", "show", "z1499") == ["z1499"]
    assert names("msg", "query", "--topic=z1499") == ["--topic=z1499"]
    assert names("msg", "query", "--topic", "z1499") == ["z1499"]
    assert len(names("topic", "show", "a")) == 1000


def test_a_cluster_that_does_not_answer_is_silence(admin: Any) -> None:
    admin.answers["topic.list"] = OSError("down")
    assert names("topic", "show", "") == []


def test_unknown_words_are_silence() -> None:
    assert names("nosuch", "x", "") == names("")
    assert names("topic", "nosuch", "x", "") == []
    assert names("topic", "list", "--nosuch=") == []


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"_MQADMIN_COMPLETE": "bash", "_MQADMIN_WORDS": "mqadmin\ntop"}, "topic\n"),
        ({"_MQADMIN_COMPLETE": "bash", "_MQADMIN_WORDS": "mqadmin\n--output\n=\nya"}, "yaml\n"),
        (
            {"_MQADMIN_COMPLETE": "zsh", "_MQADMIN_WORDS": "mqadmin\n--output=ya"},
            "--output=yaml\t\n",
        ),
        (
            {
                "_MQADMIN_COMPLETE": "complete_bash",
                "COMP_WORDS": "mqadmin\nmsg\ndec",
                "COMP_CWORD": "2",
            },
            "decode-id\n",
        ),
        (
            {
                "_MQADMIN_COMPLETE": "fish",
                "_MQADMIN_WORDS": "mqadmin\nbroker\nconfig",
                "_MQADMIN_CURRENT": "sh",
            },
            "show\tShow the effective configuration of brokers, every key with its value.\n",
        ),
        (
            {"_MQADMIN_COMPLETE": "complete_bash", "COMP_WORDS": "mqadmin msg", "COMP_CWORD": "2"},
            "query\nshow\nsend\ntail\ndecode-id\nproduce\nconsume\ntrack\ntrace\nresend\nconsume-directly\n",
        ),
    ],
)
def test_answers_in_the_shells_form(
    environ: dict[str, str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(environ) == 0
    assert capsys.readouterr().out == expected


def test_the_scripts_are_printed_and_another_shell_is_refused(mqadmin: Run) -> None:
    for shell, script in SCRIPTS.items():
        done = mqadmin("--show-completion", shell)
        assert (done.status, done.out) == (0, script)
    assert mqadmin("--show-completion", "tcsh").status == 2


def _program(folder: Path) -> Path:
    program = folder / "mqadmin"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m mqadmin "$@"\n')
    program.chmod(0o755)
    return program


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("mqadmin to", ["topic"]),
        ("mqadmin msg dec", ["decode-id"]),
        ("mqadmin topic list -o js", ["json"]),
        ("mqadmin topic list --output = js", ["json"]),
    ],
)
def test_bash_takes_the_script(tmp_path: Path, line: str, expected: list[str]) -> None:
    program = _program(tmp_path)
    (tmp_path / "script").write_text(SCRIPTS["bash"])
    words = line.split()
    array = " ".join(f"'{word}'" for word in words)
    code = (
        f"source {tmp_path}/script; COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; "
        f"COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; _mqadmin {program}; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_can_read_their_script(shell: str) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell} on this machine")
    done = subprocess.run([path, "-n"], input=SCRIPTS[shell], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
