"""mqbroker: the broker program.

Settings come from the command line, then the ``-c`` file, then the defaults. Without ``-c``,
``-n`` and ``--standalone``, the environment variable NAMESRV_ADDR sets the name servers. ``-p``
prints each setting with its origin and exits. ``--standalone`` runs a name server in the same
process.

**Source:** RocketMQ BrokerStartup (options -c, -n and -p, the ready line).
"""

import argparse
import asyncio
import gc
import logging
import os
import sys
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from broker import __version__
from broker.common.address import format_address
from broker.common.config.properties import read_properties
from broker.common.text import escape_control
from broker.errors import ConfigError, RocketMQError
from broker.remoting.process import daemon
from broker.remoting.security.tls import check_files
from broker.server.configuration.settings import Settings

if TYPE_CHECKING:
    from broker.server.serving import Role

log = logging.getLogger("broker.server")


OWN_NAME_SERVER: Final = format_address(daemon.LOOPBACK, 9876)
"""Where the name server of ``--standalone`` listens by default."""


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser for the options of mqbroker."""
    parser = daemon.OptionParser(
        prog="mqbroker",
        description="RocketMQ broker: stores messages and hands them to consumers.",
        epilog="example: mqbroker --standalone --store ./store",
    )
    parser.add_argument("-c", "--config", metavar="FILE", help="broker.conf (Java properties)")
    parser.add_argument(
        "-n", "--namesrv", metavar="ADDR[;ADDR]", help="name servers to register with"
    )
    parser.add_argument("--store", metavar="DIR", help="store directory (default ~/store)")
    parser.add_argument(
        "--listen",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="address to listen on; without it loopback only (default 127.0.0.1:10911)",
    )
    parser.add_argument(
        "--standalone",
        action="store_true",
        help="broker and name server in one process on loopback; nothing else is needed",
    )
    parser.add_argument(
        "--namesrv-listen",
        metavar="HOST:PORT",
        help="with --standalone: where the name server listens (default 127.0.0.1:9876)",
    )
    parser.add_argument(
        "-p",
        "--print-config",
        action="store_true",
        help="print every setting in force with its origin, and end",
    )
    parser.add_argument(
        "--check", action="store_true", help="check settings and store, start nothing"
    )
    daemon.add_log_arguments(parser)
    parser.add_argument("--version", action="version", version=f"mqbroker {__version__}")
    return parser


def read_settings(options: argparse.Namespace) -> Settings:
    """Merge command line, file and defaults; ConfigError with file, key and value."""
    if options.standalone and options.namesrv:
        raise ConfigError(
            "--namesrv does not apply with --standalone, which has its own name server",
            "omit one of them; --namesrv-listen sets the address of that name server",
        )
    if options.namesrv_listen and not options.standalone:
        raise ConfigError("--namesrv-listen needs --standalone", "add it, or use mqnamesrv")
    properties: dict[str, str] = {}
    origins: dict[str, str] = {}
    if options.config:
        properties = read_properties(options.config)
        origins = dict.fromkeys(properties, options.config)
    elif not options.namesrv and os.environ.get("NAMESRV_ADDR"):
        properties["namesrvAddr"] = os.environ["NAMESRV_ADDR"]
        origins["namesrvAddr"] = "NAMESRV_ADDR"
    own = options.standalone and (options.namesrv_listen or OWN_NAME_SERVER)
    for key, value, option in (
        ("namesrvAddr", options.namesrv, "--namesrv"),
        ("namesrvAddr", own, "--standalone"),
        ("storePathRootDir", options.store, "--store"),
    ):
        if value:
            properties[key] = os.path.abspath(value) if option == "--store" else value
            origins[key] = option
    try:
        return Settings(properties, origins=origins, path=options.config or "")
    except ConfigError as error:
        if options.config:
            raise ConfigError(f"{options.config}: {error.message}", error.hint) from error
        raise


def bind(settings: Settings, listen_options: Sequence[str]) -> list[tuple[str, int]]:
    """Return the listening addresses; the first one replaces the configured address.

    ``listen_options`` are the values of ``--listen``.
    """
    config = settings.broker
    listen = daemon.choose_listen(
        listen_options, port=config.listen_port, configured_host=config.bind_address
    )
    settings.set_address(*listen[0], origin="--listen" if listen_options else "")
    return listen


def print_settings(settings: Settings) -> int:
    """Print ``key=value  # origin`` for each key, sorted."""
    return daemon.print_lines(
        escape_control(f"{key}={value}  # {settings.origin(key)}")
        for key, value in sorted(settings.shown().items())
    )


def check_store(settings: Settings) -> int:
    """Check the store without starting it: its lock, file lengths and configuration files."""
    from broker.server import check

    return daemon.print_lines(
        chain(check.check_store(settings.store), ["the settings and the store can be used"])
    )


def chosen_role(
    options: argparse.Namespace,
    settings: Settings,
    listen: list[tuple[str, int]],
    stop: asyncio.Event,
) -> "Role":
    """Return a broker, or with ``--standalone`` a broker and its name server.

    ``stop`` is set when a role change fails.
    """
    if options.standalone:
        from broker.server.standalone import Standalone

        return Standalone(settings, listen, options.namesrv_listen or OWN_NAME_SERVER)
    from broker.server.role.switchable import SwitchableBroker

    if not settings.broker.namesrv_addr:
        log.warning("no name server is configured: clients will not find this broker (-n ADDR)")
    return SwitchableBroker(settings, listen, on_failure=stop.set)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status."""
    options = argument_parser().parse_args(argv)
    try:
        daemon.refuse_print_and_check(options)
        settings = read_settings(options)
        daemon.configure_logging(
            daemon.LogOptions(
                name="broker",
                format=options.log_format,
                directory=options.log_dir,
                level=options.log_level,
            )
        )
        settings.warn_unknown()
        listen = bind(settings, options.listen)
        if options.print_config:
            return print_settings(settings)
        if options.check:
            check_files(settings.broker)
            return check_store(settings)
    except RocketMQError as error:
        return daemon.report(error)
    # Modules are permanent: collecting garbage while they load costs a tenth of the start.
    # serve_until enables the collector again before the store is opened.
    gc.disable()
    from broker.server.serving import serve_until

    return daemon.run(
        lambda stop: serve_until(chosen_role(options, settings, listen, stop), settings, stop)
    )


if __name__ == "__main__":
    sys.exit(main())
