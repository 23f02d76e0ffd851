"""The program when its peers or its reader fail: each verb as a child process.

The same table of command lines is run with a closed pipe, with a dead name server, with a broker
that accepts connections and never responds, and interrupted while it waits for that broker.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.command.framework.nouns import load_noun

TOPIC = "Robust"
GROUP = "robust"
PATIENCE_S = 120

# Without a name: the files of the fixture ``files``, the address of the broker.
ONLINE = [
    "topic list",
    "topic status {topic}",
    "consumer lag --all",
    "consumer lag {group}",
    "consumer doctor",
    "cluster doctor",
    "cluster top --once",
    "broker status",
    "check broker",
    "check lag {group}",
    "check dlq",
    "check disk",
    "check replication",
    "check clock",
    "check certificate",
    "dlq list",
    "dlq purge {group} --reader {group} --no-export --yes",
    "offset show {group}",
    "offset at {topic} --since -1h",
    "offset export {group}",
    "offset import {group} {offsets} --yes",
    "offset reset {group} --topic {topic} --to earliest --yes",
    "offset clone {group} {group}-copy --yes",
    "offset undo {undo} --yes",
    "metadata export",
    "metadata diff {metadata}",
    "metadata apply {metadata} --yes",
    "apply {plan} --yes",
    "user list",
    "user create alice --password-file {password} --yes",
    "user update alice --disable --yes",
    "user delete alice --yes",
    "acl list",
    "acl create User:alice -r Topic:t -a Pub --yes",
    "acl update User:alice -r Topic:t -a Pub --yes",
    "acl delete User:alice --yes",
    "store import {export} --yes",
]

NAMESRV_ONLY = ["check namesrv", "namesrv kv list ORDER_TOPIC_CONFIG", "topic route {topic}"]

OFFLINE = [
    "store stats {store}",
    "store stats {store} --by size",
    "store copy {store} --out {new}",
    "store trim {store} --keep-bytes 0 --out {new} --yes",
    "store export {store}",
    "store verify {store}",
    "check store {store}",
]

#: Verbs of the nouns below that other lines or tests cover.
ELSEWHERE = {
    "user get",
    "acl get",
    "cluster list",
    "store inspect",
    "store find",
    "store queue",
    "store index",
    "store config",
    "store layout",
    "store diff",
    "store watch",
    "store repair",
    "store recover",
}
COMPLETE_NOUNS = ("metadata", "offset", "user", "acl", "check", "cluster", "store")

#: They report an unknown state with status 3, as monitoring systems expect.
CHECKS = "check "

#: They connect to no broker of the cluster when the name server answers.
NO_BROKER = ("check namesrv", "check certificate")


class Ended(NamedTuple):
    """How a child ended, and after how long."""

    status: int
    out: str
    err: str
    seconds: float


def test_the_table_has_every_verb_of_its_nouns() -> None:
    lines = [*ONLINE, *NAMESRV_ONLY, *OFFLINE]
    declared = {verb.path for noun in COMPLETE_NOUNS for verb in load_noun(noun).verbs.values()}
    covered = {path for path in declared for line in lines if f"{line} ".startswith(f"{path} ")}
    assert declared - covered == ELSEWHERE & declared


@pytest.fixture(scope="module")
def store(golden_store: Callable[..., Path]) -> Path:
    return golden_store("kill9-async-533") / "store"


@pytest.fixture(scope="module")
def files(
    running_broker: BlockingEmbeddedBroker,
    store: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str]:
    """Objects of the broker and files about them; the values of ``{…}``."""
    folder = tmp_path_factory.mktemp("robust")
    names = ("offsets", "undo", "metadata", "plan", "password", "export")
    found = {name: str(folder / name) for name in names}
    found |= {"topic": TOPIC, "group": GROUP, "store": str(store)}
    (folder / "password").write_text("secret\n")
    line = {"topic": TOPIC, "body": "x", "queueId": 0}
    (folder / "export").write_text(f"{json.dumps(line)}\n" * 3)
    for words in (
        "topic create {topic} --queues 2 --yes",
        "group create {group} --yes",
        "group create {group}-copy --yes",
        "msg send {topic} --body x",
        "topic create %DLQ%{group} --queues 1 --yes",
        "msg send %DLQ%{group} --body x",
        "offset reset {group} --topic %DLQ%{group} --to earliest --yes",
        "offset reset {group} --topic {topic} --to earliest --yes --undo-file {undo}",
        "offset export {group} --out {offsets}",
        "metadata export --out {metadata}",
        "topic update {topic} --write-queues 1 --plan {plan}",
    ):
        done = run(words, found, namesrv=running_broker.namesrv_address, folder=folder)
        assert done.status == 0, (words, done)
    return found


def command(line: str, files: dict[str, str], folder: Path, namesrv: str) -> list[str]:
    new = folder / "new"
    words = [word.format(**files, new=new) for word in line.split()]
    return [sys.executable, "-m", "mqadmin", *words, "-n", namesrv]


def environment(folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MQADMIN_", "NAMESRV_"))}
    return {**kept, "XDG_CONFIG_HOME": str(folder), "TZ": "UTC"}


def run(
    line: str,
    files: dict[str, str],
    *,
    namesrv: str,
    folder: Path,
    more: tuple[str, ...] = (),
    stdout: int = subprocess.PIPE,
) -> Ended:
    began = time.monotonic()
    done = subprocess.run(
        [*command(line, files, folder, namesrv), *more],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=folder,
        env=environment(folder),
    )
    return Ended(done.returncode, done.stdout or "", done.stderr, time.monotonic() - began)


def run_all(lines: list[str], each: Callable[[str], Ended]) -> dict[str, Ended]:
    with ThreadPoolExecutor(8) as pool:  # most wait for a deadline
        return dict(zip(lines, pool.map(each, lines), strict=True))


@pytest.fixture(scope="module")
def closed_pipe_ends(
    running_broker: BlockingEmbeddedBroker,
    files: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Ended]:
    def each(line: str) -> Ended:
        reader, writer = os.pipe()
        os.close(reader)
        try:
            return run(
                line.replace("--yes", "--dry-run"),
                files,
                namesrv=running_broker.namesrv_address,
                folder=tmp_path_factory.mktemp("pipe"),
                stdout=writer,
            )
        finally:
            os.close(writer)

    return run_all([*ONLINE, *NAMESRV_ONLY, *OFFLINE], each)


@pytest.mark.parametrize("line", [*ONLINE, *NAMESRV_ONLY, *OFFLINE])
def test_a_closed_pipe_is_not_an_error(closed_pipe_ends: dict[str, Ended], line: str) -> None:
    ended = closed_pipe_ends[line]
    assert "Traceback" not in ended.err
    assert "Broken pipe" not in ended.err
    assert ended.status in (0, 1, 2, 5) or line.startswith(("user", "acl", CHECKS)), ended


@pytest.fixture(scope="module")
def dead_namesrv_ends(
    files: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Ended]:
    return run_all(
        [*ONLINE, *NAMESRV_ONLY],
        lambda line: run(
            line,
            files,
            namesrv="127.0.0.1:1",
            folder=tmp_path_factory.mktemp("dead"),
            more=("--timeout", "2s"),
        ),
    )


@pytest.mark.parametrize("line", [*ONLINE, *NAMESRV_ONLY])
def test_a_dead_name_server_is_named_with_status_3(
    dead_namesrv_ends: dict[str, Ended], line: str
) -> None:
    ended = dead_namesrv_ends[line]
    expected = (2, 3) if line == "check namesrv" else (3,)
    assert ended.status in expected, ended
    assert "127.0.0.1:1" in ended.out + ended.err
    assert "Traceback" not in ended.err
    if not line.startswith(CHECKS):
        assert "hint: " in ended.err


@pytest.fixture(scope="module")
def hung_ends(
    running_broker: BlockingEmbeddedBroker,
    files: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Ended]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        return run_all(
            ONLINE,
            lambda line: run(
                line,
                files,
                namesrv=running_broker.namesrv_address,
                folder=tmp_path_factory.mktemp("hung"),
                more=("--timeout", "4s", "--address-map", f"{running_broker.address}={place}"),
            ),
        )


@pytest.mark.parametrize("line", [line for line in ONLINE if line not in NO_BROKER])
def test_a_broker_that_hangs_is_named_within_the_deadline(
    hung_ends: dict[str, Ended], running_broker: BlockingEmbeddedBroker, line: str
) -> None:
    ended = hung_ends[line]
    assert running_broker.address in ended.out + ended.err or "broker-a" in ended.out + ended.err
    assert "Traceback" not in ended.err
    assert ended.seconds < 60
    if line.endswith(" doctor"):
        assert ended.status == 1, ended  # the broker is a finding
        return
    assert ended.status in ((2, 3) if line.startswith(CHECKS) else (3, 5)), ended
    if not line.startswith(CHECKS):
        assert "hint: " in ended.err


@pytest.fixture(scope="module")
def interrupted_ends(
    running_broker: BlockingEmbeddedBroker,
    files: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Ended, list[str]]]:
    """How each child ended, and the files that it left."""

    def each(line: str) -> tuple[Ended, list[str]]:
        folder = tmp_path_factory.mktemp("interrupted")
        began = time.monotonic()
        with ExitStack() as opened:
            server = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
            server.settimeout(PATIENCE_S)
            place = f"{running_broker.address}=127.0.0.1:{server.getsockname()[1]}"
            words = command(line, files, folder, running_broker.namesrv_address)
            child = opened.enter_context(
                subprocess.Popen(
                    [*words, "--timeout", "100s", "--address-map", place],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    cwd=folder,
                    env=environment(folder),
                )
            )
            try:
                opened.enter_context(server.accept()[0])  # it waits for the broker
                child.send_signal(signal.SIGINT)
                out, err = child.communicate(timeout=PATIENCE_S)
            finally:
                child.kill()
        left = sorted(path.name for path in folder.iterdir() if path.name != "mqadmin")
        return Ended(child.returncode, out, err, time.monotonic() - began), left

    lines = [line for line in ONLINE if line not in NO_BROKER]
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(lines, pool.map(each, lines), strict=True))


@pytest.mark.parametrize("line", [line for line in ONLINE if line not in NO_BROKER])
def test_an_interrupt_ends_the_wait_with_status_130_and_leaves_no_file(
    interrupted_ends: dict[str, tuple[Ended, list[str]]], line: str
) -> None:
    ended, left = interrupted_ends[line]
    assert ended.status == 130, ended
    assert ended.seconds < 60, "it waited for its --timeout of 100 s"
    assert "Traceback" not in ended.err
    # the ledger of an import names the messages in doubt
    assert left in ([], ["export.ledger"]) if line.startswith("store import") else left == []


def test_a_change_needs_yes_without_a_terminal(
    running_broker: BlockingEmbeddedBroker, files: dict[str, str], tmp_path: Path
) -> None:
    lines = [line for line in ONLINE if "--yes" in line]
    ends = run_all(
        lines,
        lambda line: run(
            line.replace("--yes", ""),
            files,
            namesrv=running_broker.namesrv_address,
            folder=tmp_path,
        ),
    )
    assert {line: ended.status for line, ended in ends.items()} == dict.fromkeys(lines, 2)
