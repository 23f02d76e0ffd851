"""Parts shared by the daemons: log, listen address, readiness, signals, exit statuses."""

import argparse
import asyncio
import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import ClientError, ConfigError, ConnectError, StoreError, StoreLockedError
from broker.remoting.process import daemon


@pytest.fixture
def own_log() -> Iterator[None]:
    """Take the daemon's log handlers away again, and give the level back."""
    root = logging.getLogger()
    level, raises = root.level, logging.raiseExceptions
    yield
    for handler in list(root.handlers):
        if getattr(handler, "of_daemon", False):
            root.removeHandler(handler)
            handler.close()
    root.setLevel(level)
    logging.raiseExceptions = raises


# ---- the log


@pytest.mark.usefixtures("own_log")
def test_text_lines_have_time_level_name_message(capsys: pytest.CaptureFixture) -> None:
    daemon.configure_logging(daemon.LogOptions(name="x"))
    logging.getLogger("broker.some").warning("text %s", "this")
    (line,) = capsys.readouterr().err.splitlines()
    moment, level, name, message = line.split(" ", 3)
    assert moment.endswith("Z")
    assert len(moment) == len("2026-01-02T03:04:05.678Z")
    assert (level, name, message) == ("WARNING", "broker.some", "text this")


@pytest.mark.usefixtures("own_log")
def test_json_lines_are_one_object_each_with_the_trace_inside(capsys) -> None:
    daemon.configure_logging(daemon.LogOptions(name="x", format="json"))
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("broker.some").exception("failed")
    (line,) = capsys.readouterr().err.splitlines()
    entry = json.loads(line)
    assert (entry["level"], entry["logger"], entry["message"]) == ("ERROR", "broker.some", "failed")
    assert "ValueError: two\nlines" in entry["error"]


HOSTILE = "topic\n2026-01-02T03:04:05.678Z INFO forged \x1b[2J\x9b31m\u202e"


@pytest.mark.usefixtures("own_log")
@pytest.mark.parametrize("form", ["text", "json"])
def test_no_control_or_bidi_character_of_a_peer_reaches_the_log(capsys, form: str) -> None:
    daemon.configure_logging(daemon.LogOptions(name="x", format=form))
    log = logging.getLogger("broker.some")
    log.warning("unknown topic %s", HOSTILE)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        log.exception("failed")
    text = capsys.readouterr().err
    assert not set("\x1b\x9b\u202e\r") & set(text)
    starts = [line for line in text.splitlines() if not line.startswith(" ")]
    assert len(starts) == 2
    assert "forged" in starts[0]


@pytest.mark.usefixtures("own_log")
@pytest.mark.parametrize("form", ["text", "json"])
def test_truncated_log_lines_are_marked(capsys, form: str) -> None:
    daemon.configure_logging(daemon.LogOptions(name="x", format=form))
    logging.getLogger("broker.some").warning("unknown topic %s", "x" * 20_000_000)
    try:
        raise ValueError(("y" * 1000 + "\n") * 10_000)
    except ValueError:
        logging.getLogger("broker.some").exception("failed")
    text = capsys.readouterr().err
    assert len(text) < 2 * (daemon.LOG_LINE_CHARS + daemon.LOG_TRACE_CHARS)
    assert "more characters)" in text


@pytest.mark.usefixtures("own_log")
def test_a_directory_gets_a_rotated_file_beside_stderr(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "LOG_FILE_BYTES", 200)
    options = daemon.LogOptions(name="namesrv", directory=str(tmp_path / "logs"))
    daemon.configure_logging(options)
    for n in range(10):
        logging.getLogger("broker.some").warning("line %d %s", n, "x" * 50)
    assert len(capsys.readouterr().err.splitlines()) == 10
    names = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert names[0] == "namesrv.log"
    assert "namesrv.log.1" in names


@pytest.mark.usefixtures("own_log")
def test_configuring_again_replaces(capsys) -> None:
    for _ in range(3):
        daemon.configure_logging(daemon.LogOptions(name="x"))
    logging.getLogger("broker.some").warning("once")
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.usefixtures("own_log")
def test_a_directory_that_cannot_be_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--log-dir"):
        daemon.configure_logging(daemon.LogOptions(name="x", directory=str(tmp_path / "file")))


def test_the_log_options_are_the_same_for_every_daemon() -> None:
    parser = argparse.ArgumentParser()
    daemon.add_log_arguments(parser)
    options = parser.parse_args(["--log-format", "json", "--log-dir", "/x", "--log-level", "DEBUG"])
    assert (options.log_format, options.log_dir, options.log_level) == ("json", "/x", "DEBUG")


# ---- where to listen


def test_the_default_is_loopback() -> None:
    assert daemon.choose_listen([], port=9876) == [("127.0.0.1", 9876)]
    assert daemon.choose_listen([], port=9876, configured_host="127.0.0.5") == [("127.0.0.5", 9876)]


def test_a_file_cannot_open_the_port_to_others(caplog) -> None:
    with caplog.at_level(logging.WARNING):
        chosen = daemon.choose_listen([], port=9876, configured_host="0.0.0.0")
    assert chosen == [("127.0.0.1", 9876)]
    assert "use --listen 0.0.0.0:9876" in caplog.text


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0.0.0.0:1234", ("0.0.0.0", 1234)),
        (":1234", ("0.0.0.0", 1234)),
        ("10.0.0.1", ("10.0.0.1", 9876)),
        ("[::1]:1234", ("::1", 1234)),
        ("[::1]", ("::1", 9876)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_listen_takes_every_form(text: str, address: tuple) -> None:
    assert daemon.choose_listen([text], port=9876) == [address]


def test_an_open_port_without_authentication_warns(caplog) -> None:
    with caplog.at_level(logging.WARNING):
        daemon.choose_listen(["127.0.0.1:1", "0.0.0.0:2"], port=9876)
        daemon.choose_listen(["0.0.0.0:3"], port=9876, protected=True)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert "0.0.0.0:2 without authentication" in lines[0]


@pytest.mark.parametrize("text", ["a:b", "1.2.3.4:99999", "::1:80", "9876", ""])
def test_listen_refuses_an_invalid_address(text: str) -> None:
    with pytest.raises(ConfigError, match="--listen"):
        daemon.choose_listen([text], port=9876)


def test_any_host_is_shown_as_an_address_of_the_machine() -> None:
    assert daemon.shown_host("10.0.0.1") == "10.0.0.1"
    assert daemon.shown_host("0.0.0.0") not in ("0.0.0.0", "")


# ---- readiness


def test_the_ready_line_goes_to_stdout_and_the_service_manager(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        daemon.ready("The Name Server boot success.")
        assert manager.recv(100) == b"READY=1"
    assert capsys.readouterr().out == "The Name Server boot success.\n"


def test_an_abstract_notify_socket_works(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"mq-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name)
        assert daemon.notify("STOPPING=1")
        assert manager.recv(100) == b"STOPPING=1"


def test_without_a_service_manager_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not daemon.notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", "/nonexistent/notify")
    assert not daemon.notify("READY=1")


# ---- the life of the process


@pytest.mark.usefixtures("event_loop_name")
def test_the_first_signal_stops_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon.os, "_exit", lambda status: pytest.fail("ended at once"))
    order: list[str] = []

    async def serve(stop: asyncio.Event) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        order.append("stopped")
        return 0

    assert daemon.run(serve) == 0
    assert order == ["stopped"]


@pytest.mark.usefixtures("event_loop_name")
def test_a_hangup_of_the_terminal_stops_in_order_unless_it_is_ignored() -> None:
    """Java stops in order, too; nohup ignores the signal."""
    hangups: list[bool] = []

    async def serve(stop: asyncio.Event) -> int:
        os.kill(os.getpid(), signal.SIGHUP)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            await stop.wait()
        hangups.append(stop.is_set())
        return 0

    # The tests themselves may run under nohup.
    previous = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert daemon.run(serve) == 0
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert daemon.run(serve) == 0
    finally:
        signal.signal(signal.SIGHUP, previous)
    assert hangups == [True, False]


@pytest.mark.usefixtures("event_loop_name")
def test_the_second_signal_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses: list[int] = []
    monkeypatch.setattr(daemon.os, "_exit", statuses.append)

    async def serve(stop: asyncio.Event) -> int:
        signals = daemon.StopSignals(stop)
        signals.received(signal.SIGTERM)
        assert stop.is_set()
        assert statuses == []
        signals.received(signal.SIGINT)
        return 0

    daemon.run(serve)
    assert statuses == [daemon.STATUS_KILLED]


@pytest.mark.usefixtures("event_loop_name")
def test_the_second_signal_does_not_wait_for_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last sync of a stop blocks the loop, for minutes on a slow disk."""
    ended = threading.Event()
    monkeypatch.setattr(daemon.os, "_exit", lambda status: ended.set())
    before = signal.getsignal(signal.SIGTERM)

    async def serve(stop: asyncio.Event) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        return 0 if ended.wait(20) else 1

    assert daemon.run(serve) == 0
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError("listenPort=x: not a whole number", "write digits"), 2),
        (ConnectError("cannot listen on 127.0.0.1:9876", "write digits"), 3),
        (StoreError("damaged", "write digits"), 7),
        (StoreLockedError("another broker uses this store", "write digits"), 4),
        (ClientError("else", "write digits"), 1),
    ],
)
@pytest.mark.usefixtures("event_loop_name")
def test_project_errors_are_two_lines_and_a_status(capsys, error: Exception, status: int) -> None:
    async def serve(_: asyncio.Event) -> int:
        raise error

    assert daemon.run(serve) == status
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"error: {error}", "hint: write digits"]


@pytest.mark.usefixtures("event_loop_name")
def test_the_status_of_the_role_is_the_status_of_the_process() -> None:
    async def serve(_: asyncio.Event) -> int:
        return 5

    assert daemon.run(serve) == 5


def test_the_machine_has_an_address() -> None:
    assert len(daemon.own_address().split(".")) == 4
