"""Start-up and shutdown code common to the daemons of this project.

Duty
    Run a role (name server, broker) as a process: configure logging, choose the listen addresses,
    report readiness, shut down cleanly on the first signal and exit immediately on the second,
    write the stacks of all threads on SIGQUIT.

::

    def main(argv=None) -> int:
        options = parser.parse_args(argv)
        daemon.configure_logging(LogOptions(name="broker", format=..., directory=...))
        return daemon.run(lambda stop: serve(options, stop))

    async def serve(options, stop: asyncio.Event) -> int:
        server = NameServer(config)
        await server.start()
        daemon.ready("The Name Server boot success. ...")
        await stop.wait()
        await server.close()
        return 0

stdout carries the ready line and nothing else; the log goes to stderr and, when a directory is
given, to rotated files. If NOTIFY_SOCKET is set, systemd is notified of READY and STOPPING.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from broker.common.address import format_address, is_loopback, parse_address
from broker.common.text import escape_control, truncate
from broker.common.thread_name import show_thread_name
from broker.errors import ConfigError, ConnectError, RocketMQError, StoreError, StoreLockedError
from broker.remoting.process import loop as event_loop
from broker.remoting.process.stack_dump import stack_dump_on_sigquit

LOG_FILE_BYTES = 64 * 1024 * 1024
"""Size at which a log file is rotated."""

LOG_FILE_COUNT = 10
"""Number of rotated log files kept."""

STATUS_OK = 0
STATUS_FAILED = 1
STATUS_USAGE = 2
STATUS_UNREACHABLE = 3
STATUS_LOCKED = 4
STATUS_DAMAGED = 7
STATUS_KILLED = 130

LOOPBACK = "127.0.0.1"

log = logging.getLogger("broker.daemon")

_ANY_HOSTS = {"0.0.0.0", "::", ""}


# ---- the log


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Log options of a daemon.

    ``name`` is the file name without ``.log``; ``format`` "text" or "json"; ``directory`` for
    rotated files, empty for none; ``level`` a level name of the logging module.
    """

    name: str
    format: str = "text"
    directory: str = ""
    level: str = "INFO"


LOG_LINE_CHARS = 4_096
"""Longest log message and longest line of a trace; longer text is truncated."""

LOG_TRACE_CHARS = 32_768
"""Longest trace."""


class TextFormatter(logging.Formatter):
    """``2026-01-02T03:04:05.678Z INFO broker.remoting message``: one line, UTC.

    Control and bidi characters are escaped, because peers can inject them; lines of a trace are
    indented, so that none can be mistaken for a log entry.
    """

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s")
        self.datefmt = "%Y-%m-%dT%H:%M:%S"

    def format(self, record: logging.LogRecord) -> str:
        """Return the log line; the trace of an error follows on indented lines."""
        record.message = escape_control(truncate(record.getMessage(), LOG_LINE_CHARS))
        record.asctime = self.formatTime(record, self.datefmt)
        lines = [self.formatMessage(record)]
        if record.exc_info:
            trace = truncate(self.formatException(record.exc_info), LOG_TRACE_CHARS)
            for line in trace.splitlines():
                lines.append(f"    {escape_control(truncate(line, LOG_LINE_CHARS))}")
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and error with its trace."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a JSON object on one line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": truncate(record.getMessage(), LOG_LINE_CHARS),
        }
        if record.exc_info:
            entry["error"] = truncate(self.formatException(record.exc_info), LOG_TRACE_CHARS)
        return escape_control(json.dumps(entry, ensure_ascii=False))


def configure_logging(options: LogOptions) -> None:
    """Send the log to stderr and, with a directory, to ``<directory>/<name>.log``, rotated.

    Replaces the handlers of an earlier call. Raises ConfigError when the directory cannot be used.
    """
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if options.directory:
        path = Path(options.directory) / f"{options.name}.log"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            from broker.remoting.process.log_file import RotatedLogFile

            handlers.append(RotatedLogFile(path, max_bytes=LOG_FILE_BYTES, count=LOG_FILE_COUNT))
        except OSError as error:
            raise ConfigError(
                f"--log-dir {options.directory}: {error.strerror or error}",
                "name a directory this user may write to",
            ) from error
    formatter = JsonFormatter() if options.format == "json" else TextFormatter()
    root = logging.getLogger()
    for old in list(root.handlers):
        if getattr(old, "of_daemon", False):
            root.removeHandler(old)
            old.close()
    for handler in handlers:
        handler.setFormatter(formatter)
        handler.of_daemon = True  # type: ignore[attr-defined]
        root.addHandler(handler)
    root.setLevel(options.level)
    logging.raiseExceptions = False  # a closed stderr must not stop the daemon


class OptionParser(argparse.ArgumentParser):
    """A parser that reports a wrong option as every other error: one line and a hint."""

    def error(self, message: str) -> NoReturn:
        """Report the error and exit with the status of a usage error."""
        self.exit(report(ConfigError(message, f"{self.prog} --help lists the options")))


def refuse_print_and_check(options: argparse.Namespace) -> None:
    """Raise ConfigError if both ``--print-config`` and ``--check`` are given: each ends the run."""
    if options.print_config and options.check:
        raise ConfigError("-p prints the settings and --check checks them", "omit one of them")


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the log options common to all daemons."""
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="log format (default text)"
    )
    parser.add_argument(
        "--log-dir", default="", metavar="DIR", help="also log to rotated files in this directory"
    )
    parser.add_argument(
        "--log-level",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
        default="INFO",
        help="lowest level to log (default INFO)",
    )


# ---- listen addresses


def choose_listen(
    options: Sequence[str], *, port: int, configured_host: str = "", protected: bool = False
) -> list[tuple[str, int]]:
    """Return the addresses to bind: loopback unless ``--listen`` names others.

    ``options`` contains the ``--listen`` values ("host:port", ":port" or "host"); ``port`` is the
    default port; ``configured_host`` is the ``bindAddress`` of the configuration file: a loopback
    address is used, any other only causes a warning, because a file copied from a cluster must
    not open a port by itself. A ``--listen`` address other than loopback without ``protected``
    (authentication) is allowed, with a warning.

    Raises ConfigError for an invalid address.
    """
    if options:
        chosen = [_listen_address(text, port) for text in options]
        for host, bound_port in chosen:
            if not is_loopback(host) and not protected:
                log.warning(
                    "listening on %s without authentication: every host that reaches this port "
                    "may send, read and register",
                    format_address(host, bound_port),
                )
        return chosen
    if configured_host and not is_loopback(configured_host):
        log.warning(
            "bindAddress=%s is not taken from the file: listening on %s; "
            "use --listen %s to open the port to other hosts",
            configured_host,
            format_address(LOOPBACK, port),
            format_address(configured_host, port),
        )
        return [(LOOPBACK, port)]
    return [(configured_host or LOOPBACK, port)]


def _listen_address(text: str, port: int) -> tuple[str, int]:
    stripped = text.strip()
    if stripped.startswith(":") and stripped.count(":") == 1:
        stripped = f"0.0.0.0{stripped}"
    elif stripped.startswith("[") and stripped.endswith("]"):
        return stripped[1:-1], port
    elif ":" not in stripped:
        if not stripped or stripped.isdecimal():
            raise ConfigError(f"--listen {text}: no host", "write HOST:PORT, or :PORT for any")
        return stripped, port
    try:
        return parse_address(stripped)
    except RocketMQError as error:
        raise ConfigError(
            f"--listen {text}: {error.message}", "write HOST:PORT, for example 0.0.0.0:9876"
        ) from error


def shown_host(host: str) -> str:
    """Return a bound host as peers can reach it: a wildcard becomes this machine's address."""
    if host not in _ANY_HOSTS:
        return host
    return own_address()


def own_address(towards: tuple[str, int] = ("192.0.2.1", 9)) -> str:
    """Return this machine's IP address on the route to a peer; 127.0.0.1 without a network.

    No packet is sent: connecting a datagram socket only selects the route.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(towards)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


# ---- readiness


def ready(line: str) -> None:
    """Print the ready line of this daemon and notify systemd."""
    with contextlib.suppress(ValueError):  # stdout is closed
        print_lines([line])
    notify("READY=1")


def print_lines(lines: Iterable[str]) -> int:
    """Print lines and return the exit status; a closed pipe (``head``) is not an error."""
    try:
        for line in lines:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except OSError as error:
        # the interpreter's last flush would fail again
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
        if isinstance(error, BrokenPipeError):
            return STATUS_OK
        sys.stderr.write(f"error: cannot write the output: {error.strerror}\n")
        return STATUS_FAILED
    return STATUS_OK


def notify(state: str) -> bool:
    """Send a state ("READY=1", "STOPPING=1") to the service manager, if one is configured.

    NOTIFY_SOCKET contains the address; a leading "@" denotes an abstract socket. Returns whether
    the state was sent; never raises.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(state.encode(), address)
    except OSError as error:
        log.warning("cannot notify the service manager: %s", error)
        return False
    return True


# ---- process lifecycle


class StopSignals:
    """SIGTERM, SIGINT and SIGHUP: the first sets ``stop``, the second exits immediately.

    SIGHUP, which is sent when a terminal closes, stays ignored under nohup, as in a JVM.
    """

    def __init__(self, stop: asyncio.Event) -> None:
        self.stop = stop
        self.installed: list[signal.Signals] = []
        self._second: SecondSignal | None = None

    def install(self) -> None:
        """Install the handlers; does nothing outside the main thread."""
        running = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            try:
                running.add_signal_handler(number, self.received, number)
            except (NotImplementedError, RuntimeError, ValueError):
                return
            self.installed.append(number)

    def remove(self) -> None:
        """Remove the handlers."""
        if self._second is not None:
            self._second.close()
        self._remove_from_loop()

    def _remove_from_loop(self) -> None:
        running = asyncio.get_running_loop()
        for number in self.installed:
            running.remove_signal_handler(number)
        self.installed.clear()

    def received(self, number: signal.Signals) -> None:
        """First signal: request a clean shutdown. Second: exit with STATUS_KILLED."""
        if self.stop.is_set():
            exit_at_once(number)
        log.info("%s: shutting down; a second signal exits immediately", number.name)
        notify("STOPPING=1")
        self.stop.set()
        if self.installed:
            numbers = list(self.installed)
            self._remove_from_loop()
            self._second = SecondSignal(numbers)


class SecondSignal:
    """A thread that waits for the second signal: the last syncs of a stop block the event loop."""

    def __init__(self, numbers: Sequence[signal.Signals]) -> None:
        self._source, self._sink = os.pipe()
        os.set_blocking(self._sink, False)
        self._before = {number: signal.signal(number, _ignore) for number in numbers}
        self._fd_before = signal.set_wakeup_fd(self._sink, warn_on_full_buffer=False)
        threading.Thread(target=self._wait, name="signals", daemon=True).start()

    def _wait(self) -> None:
        show_thread_name()
        with os.fdopen(self._source, "rb", buffering=0) as source:
            while received := source.read(1):
                if received[0] in self._before:
                    exit_at_once(signal.Signals(received[0]))

    def close(self) -> None:
        """Restore the handlers; the thread ends."""
        signal.set_wakeup_fd(self._fd_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._sink)


def _ignore(number: int, frame: object) -> None:
    """Do nothing: the number of the signal is in the pipe."""


def exit_at_once(number: signal.Signals) -> None:
    """End the process without a clean shutdown."""
    log.warning("%s again: exiting immediately", number.name)
    logging.shutdown()
    os._exit(STATUS_KILLED)


def run(serve: Callable[[asyncio.Event], Coroutine[Any, Any, int]]) -> int:
    """Run a daemon until it stops; returns its exit status.

    ``serve(stop)`` starts the role, prints the ready line, waits for ``stop``, closes and returns
    a status. A RocketMQError is reported on stderr and becomes a status: 2 for options and
    configuration, 3 for an address that cannot be bound, 4 for a store that another broker uses,
    7 for store files, else 1.
    """

    async def supervised() -> int:
        stop = asyncio.Event()
        executor = ThreadPoolExecutor(thread_name_prefix="executor", initializer=show_thread_name)
        asyncio.get_running_loop().set_default_executor(executor)
        signals = StopSignals(stop)
        signals.install()
        try:
            return await serve(stop)
        finally:
            signals.remove()

    try:
        with stack_dump_on_sigquit():
            return event_loop.run(supervised())
    except RocketMQError as error:
        return report(error)
    except KeyboardInterrupt:
        return STATUS_KILLED


def report(error: RocketMQError) -> int:
    """Print error and hint on stderr; returns the exit status for the error."""
    sys.stderr.write(f"error: {escape_control(error.message)}\n")
    if error.hint:
        sys.stderr.write(f"hint: {escape_control(error.hint)}\n")
    if isinstance(error, ConfigError):
        return STATUS_USAGE
    if isinstance(error, ConnectError):
        return STATUS_UNREACHABLE
    if isinstance(error, StoreLockedError):
        return STATUS_LOCKED
    if isinstance(error, StoreError):
        return STATUS_DAMAGED
    return STATUS_FAILED
