"""The program as a process: start-up cost, streams, signals."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import broker

FORBIDDEN = {
    "rich",
    "pygments",
    "httpx",
    "asyncio",
    "ssl",
    "tabulate",
    "numpy",
    "pyarrow",
    "pydantic",
    "importlib.metadata",
    "concurrent.futures",
}

QUICK_CEILING = 150  # modules beyond the bare interpreter's: the quick parser's commands
LAG_CEILING = 160  # the routes of static topics, too
FACE_CEILING = 150  # the Typer face: help, mistakes
NOTHING_LISTENS = "127.0.0.1:1"

ENTRY = "import sys; from mqadmin.__main__ import main; main()"


def run(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "NAMESRV_ADDR": NOTHING_LISTENS, **environ}
    return subprocess.run(
        [sys.executable, "-m", "mqadmin", *words],
        capture_output=True,
        text=True,
        env=env,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )


def imported(code: str, *words: str, **environ: str) -> set[str]:
    """Names of the modules a child imports, as ``-X importtime`` reports them."""
    env = {**os.environ, "NAMESRV_ADDR": NOTHING_LISTENS, **environ}
    done = subprocess.run(
        [sys.executable, "-I", "-X", "importtime", "-c", code, *words],
        capture_output=True,
        text=True,
        env=env,
        check=False,
        timeout=60,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines[1:]}


@pytest.fixture(scope="module")
def bare() -> set[str]:
    return imported("pass")


@pytest.mark.parametrize(
    ("words", "environ", "ceiling"),
    [
        (["--version"], {}, 12),
        (["topic", "list"], {}, QUICK_CEILING),
        (["consumer", "lag", "g"], {}, LAG_CEILING),
        (["check", "lag"], {}, QUICK_CEILING),
        (["check", "broker", "-o", "prometheus"], {}, QUICK_CEILING),
        (["topic", "list", "-o", "json"], {}, QUICK_CEILING),
        (["msg", "query", "--topic", "t", "--key", "k"], {}, QUICK_CEILING),
        (["--help"], {}, FACE_CEILING),
        (["topic", "--help"], {}, FACE_CEILING),
        ([], {"_MQADMIN_COMPLETE": "bash", "_MQADMIN_WORDS": "mqadmin\ntopic\n"}, 60),
        (
            [],
            {"_MQADMIN_COMPLETE": "bash", "_MQADMIN_WORDS": "mqadmin\ntopic\nshow\n"},
            QUICK_CEILING,
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_command_imports_only_the_modules_it_needs(
    bare: set[str], words: list[str], environ: dict[str, str], ceiling: int
) -> None:
    names = imported(ENTRY, *words, **environ) - bare
    assert "mqadmin.app" in names
    assert not {n for n in names if n in FORBIDDEN or n.split(".")[0] in FORBIDDEN}
    assert len(names) <= ceiling, sorted(names)


@pytest.mark.parametrize("words", [["topic", "list"], ["--version"], ["context", "show"]])
def test_plain_commands_never_load_the_face(words: list[str]) -> None:
    assert not {"typer", "click"} & imported(ENTRY, *words)


def test_the_version_is_the_projects() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"mqadmin {broker.__version__}\n")
    assert run("-v", "--version").stdout == done.stdout


def test_no_words_show_the_help_and_are_a_usage_error() -> None:
    done = run()
    assert done.returncode == 2
    assert "Commands:" in done.stderr


def test_a_closed_port_is_status_3_with_the_address() -> None:
    done = run("topic", "list", "-o", "json")
    assert (done.returncode, done.stdout) == (3, "")
    error = json.loads(done.stderr)["error"]
    assert error["kind"] == "unreachable"
    assert error["address"] == NOTHING_LISTENS


def test_a_request_trace_goes_to_stderr() -> None:
    done = run("topic", "list", "-v")
    assert "127.0.0.1:1: no answer" in done.stderr
    assert done.stdout == ""


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A name server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_the_timeout_bounds_the_whole_command(silent_server: str) -> None:
    done = run("topic", "list", "-n", silent_server, "--timeout", "300ms")
    assert done.returncode == 3
    assert done.stderr.startswith("error: ")


def test_an_interrupt_is_status_130_without_a_word(silent_server: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "mqadmin", "topic", "list", "-n", silent_server],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        host, _, port = silent_server.rpartition(":")
        waiting = Path(f"/proc/{child.pid}/net/tcp")
        peer = f"0100007F:{int(port):04X}"
        ready = threading.Event()
        while not ready.is_set():
            lines = waiting.read_text().splitlines() if waiting.exists() else []
            if any(line.split()[2] == peer and line.split()[3] == "01" for line in lines[1:]):
                ready.set()
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
        assert (child.returncode, out, err) == (130, b"", b"")
        assert host == "127.0.0.1"


@pytest.mark.parametrize("words", ["store layout -o ndjson", "--help", "store inspect --help"])
def test_a_closed_pipe_is_not_an_error(words: str) -> None:
    command = f"{sys.executable} -m mqadmin {words}; echo status=$? >&2"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; ( {command} ) | true"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == "status=0\n"


def test_a_closed_stdout_is_not_an_error() -> None:
    command = f"{sys.executable} -m mqadmin store layout >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", ["store layout", "store layout -o json", "--version", "--help"])
def test_output_on_a_full_disk_is_cut_output(words: str) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full")
    command = f"{sys.executable} -m mqadmin {words} > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert "Traceback" not in done.stderr
    assert "cannot write the output: No space left" in done.stderr
