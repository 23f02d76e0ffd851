"""What every daemon of this project does at its start and its end.

Duty
    Turn a role (name server, broker) into a well-behaved process: log where it was told to, bind
    only where it may, say when it is ready, stop in order on the first signal and at once on the
    second.

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
given, to rotated files. systemd is told READY and STOPPING when it asks (NOTIFY_SOCKET).
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
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec

from broker.common.address import format_address, is_loopback, parse_address
from broker.errors import ConfigError, ConnectError, RocketMQError, StoreError
from broker.remoting import loop as event_loop

LOG_FILE_BYTES = 64 * 1024 * 1024
"""Size at which a log file is rotated."""

LOG_FILE_COUNT = 10
"""Rotated log files kept."""

STATUS_OK = 0
STATUS_FAILED = 1
STATUS_USAGE = 2
STATUS_UNREACHABLE = 3
STATUS_DAMAGED = 7
STATUS_KILLED = 130

LOOPBACK = "127.0.0.1"

log = logging.getLogger("broker.daemon")

_ANY_HOSTS = {"0.0.0.0", "::", ""}


# ---- the log


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how a daemon logs.

    ``name`` begins the file name; ``format`` "text" or "json"; ``directory`` for rotated files,
    empty for none; ``level`` a name of the logging module.
    """

    name: str
    format: str = "text"
    directory: str = ""
    level: str = "INFO"


class TextFormatter(logging.Formatter):
    """``2026-01-02T03:04:05.678Z INFO broker.remoting message``: one line, UTC."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s")
        self.datefmt = "%Y-%m-%dT%H:%M:%S"


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and error with its trace."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a JSON object; never more than one line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure_logging(options: LogOptions) -> None:
    """Send the log to stderr and, with a directory, to ``<directory>/<name>.log``, rotated.

    Replaces what an earlier call set up. Raises ConfigError when the directory cannot be used.
    """
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if options.directory:
        path = Path(options.directory) / f"{options.name}.log"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            from logging.handlers import RotatingFileHandler

            handlers.append(
                RotatingFileHandler(
                    path, maxBytes=LOG_FILE_BYTES, backupCount=LOG_FILE_COUNT, encoding="utf-8"
                )
            )
        except OSError as error:
            raise ConfigError(
                f"--log-dir {options.directory}: {error.strerror or error}",
                "name a directory this user may write to",
            ) from error
    formatter = JsonFormatter() if options.format == "json" else TextFormatter()
    root = logging.getLogger()
    for old in list(root.handlers):
        if getattr(old, "_of_daemon", False):
            root.removeHandler(old)
            old.close()
    for handler in handlers:
        handler.setFormatter(formatter)
        handler._of_daemon = True  # type: ignore[attr-defined]
        root.addHandler(handler)
    root.setLevel(options.level)
    logging.raiseExceptions = False  # a closed stderr is no reason to fail


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    """The options every daemon has for its log."""
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="form of the log lines"
    )
    parser.add_argument(
        "--log-dir", default="", metavar="DIR", help="also log to rotated files in this directory"
    )
    parser.add_argument(
        "--log-level",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
        default="INFO",
        help="least severe lines to log (default INFO)",
    )


# ---- where to listen


def choose_listen(
    said: Sequence[str], *, port: int, configured_host: str = "", protected: bool = False
) -> list[tuple[str, int]]:
    """The addresses to bind: loopback unless another one was said on the command line.

    ``said`` are ``--listen`` values ("host:port", ":port" or "host"); ``port`` is the port when
    none is said; ``configured_host`` is what the configuration file asks for (``bindAddress``): a
    loopback one is taken, another one only warned about, because a file copied from a cluster
    must not open a port by itself. A non-loopback bind without ``protected`` (authentication)
    is allowed when said, with a warning.

    Raises ConfigError for text that is no address.
    """
    if said:
        chosen = [_listen_address(text, port) for text in said]
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
            "say --listen %s to open the port to other hosts",
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
        if not stripped or stripped.isdigit():
            raise ConfigError(f"--listen {text}: no host", "write HOST:PORT, or :PORT for any")
        return stripped, port
    try:
        return parse_address(stripped)
    except RocketMQError as error:
        raise ConfigError(
            f"--listen {text}: {error.message}", "write HOST:PORT, for example 0.0.0.0:9876"
        ) from error


def shown_host(host: str) -> str:
    """A bound host as peers can use it: the machine's own address in place of "any"."""
    if host not in _ANY_HOSTS:
        return host
    from broker.remoting.server import own_address

    return own_address()


# ---- readiness


def ready(line: str) -> None:
    """Print the one line that says this daemon serves, and tell systemd."""
    with contextlib.suppress(BrokenPipeError, ValueError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    notify("READY=1")


def notify(state: str) -> bool:
    """Send a state ("READY=1", "STOPPING=1") to the service manager, if one listens.

    The address is in NOTIFY_SOCKET; "@" begins an abstract one. Never raises.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address or not hasattr(socket, "AF_UNIX"):
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


# ---- the life of the process


class StopSignals:
    """SIGTERM and SIGINT: the first sets ``stop``, the second ends the process at once."""

    def __init__(self, stop: asyncio.Event) -> None:
        self.stop = stop
        self.installed: list[signal.Signals] = []

    def install(self) -> None:
        """Take the signals over; quietly does nothing outside the main thread."""
        running = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                running.add_signal_handler(number, self.received, number)
            except (NotImplementedError, RuntimeError, ValueError):
                return
            self.installed.append(number)

    def remove(self) -> None:
        """Give the signals back."""
        running = asyncio.get_running_loop()
        for number in self.installed:
            running.remove_signal_handler(number)
        self.installed.clear()

    def received(self, number: signal.Signals) -> None:
        """First: an orderly stop. Second: the end, now."""
        if self.stop.is_set():
            log.warning("%s again: ending at once", number.name)
            logging.shutdown()
            os._exit(STATUS_KILLED)
        log.info("%s: stopping in order; a second signal ends at once", number.name)
        notify("STOPPING=1")
        self.stop.set()


def run(serve: Callable[[asyncio.Event], Coroutine[Any, Any, int]]) -> int:
    """Run a daemon to its end; returns its exit status.

    ``serve(stop)`` starts, prints the ready line, waits for ``stop``, closes, returns a status. A
    project error it raises becomes two lines on stderr and a status: 2 for options and
    configuration, 3 for an address that cannot be bound, 7 for store files, else 1.
    """

    async def supervised() -> int:
        stop = asyncio.Event()
        signals = StopSignals(stop)
        signals.install()
        try:
            return await serve(stop)
        finally:
            signals.remove()

    try:
        return event_loop.run(supervised())
    except RocketMQError as error:
        return report(error)
    except KeyboardInterrupt:
        return STATUS_KILLED


def report(error: RocketMQError) -> int:
    """Say on stderr what is wrong and what to do next; returns the exit status that fits."""
    sys.stderr.write(f"error: {error.message}\n")
    if error.hint:
        sys.stderr.write(f"hint: {error.hint}\n")
    if isinstance(error, ConfigError):
        return STATUS_USAGE
    if isinstance(error, ConnectError):
        return STATUS_UNREACHABLE
    if isinstance(error, StoreError):
        return STATUS_DAMAGED
    return STATUS_FAILED
