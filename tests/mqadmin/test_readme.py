"""The lines of README that can be pasted are pasted here."""

import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.facade import MQAdmin
from mqadmin.command.framework.quick import parse

Run = Callable[..., Any]

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
SHELL = [block for language, block in BLOCKS if language == "" and "mqadmin" in block]
TEN_MINUTES = next(block for block in SHELL if "mqbroker --standalone" in block)
PYTHON = next(block for language, block in BLOCKS if "BlockingEmbeddedBroker" in block)

LINES = [line for block in SHELL for line in block.splitlines() if line.startswith("mqadmin ")]


def words_of(line: str) -> list[str]:
    return shlex.split(line, comments=True)


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_a_command_line_that_is_understood(line: str) -> None:
    command = re.split(r"\s+>\s", line)[0]
    assert parse(words_of(command)[1:]) is not None


@pytest.mark.parametrize("block", SHELL)
def test_a_block_is_shell(block: str) -> None:
    done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_address_list_is_quoted() -> None:
    exports = [line for block in SHELL for line in block.splitlines() if line.startswith("export ")]
    assert exports
    for line in exports:
        done = subprocess.run(
            ["bash", "-c", f'{line}; printf %s "$NAMESRV_ADDR"'],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr, done.stdout.count(";")) == (0, "", 1)


def test_the_ten_minutes_pass_as_pasted(
    mqadmin: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "mq"
    lines = [line for line in TEN_MINUTES.splitlines() if line.startswith("mqadmin ")]
    stop = next(place for place, line in enumerate(lines) if "/tmp/mq" in line)
    assert len(lines) > 10

    def check(line: str) -> None:
        words = [word.replace("/tmp/mq", str(store)) for word in words_of(line)[1:]]
        done = mqadmin(*words)
        assert (done.status, bool(done.out)) == (0, True), f"{line}\n{done.err}"

    with BlockingEmbeddedBroker(str(store)) as broker:
        monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv_address)
        for line in lines[:stop]:
            check(line)
    for line in lines[stop:]:
        check(line)


def test_the_python_snippet_is_a_test_that_passes(tmp_path: Path) -> None:
    space: dict[str, Any] = {}
    exec(compile(PYTHON, "README.md", "exec"), space)
    space["test_an_order_is_stored"](tmp_path)


def test_files_and_extras_that_are_named_exist() -> None:
    for page in re.findall(r"`man (\S+?)`", README):
        assert (ROOT / page).is_file()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installs = re.findall(r"pip install '?([^\s']+)", README)
    assert installs == [".", ".[spark]"]
    assert "spark" in extras["optional-dependencies"]


def test_the_client_example_runs_as_pasted(tmp_path: Path) -> None:
    (example,) = [block for language, block in BLOCKS if "broker.client" in block]
    with BlockingEmbeddedBroker(str(tmp_path)) as broker:
        names: dict[str, Any] = {}
        exec(example.replace("127.0.0.1:9876", broker.namesrv_address), names)
        with MQAdmin([broker.namesrv_address]) as admin:
            assert [queue.max_offset for queue in admin.topic.status("orders").items].count(1) == 1
