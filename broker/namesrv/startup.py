"""mqnamesrv: the name server program.

Command-line options take precedence over the ``-c`` file, which takes precedence over the defaults;
``-p`` prints each setting with its origin and exits.

**Source:** RocketMQ NamesrvStartup (options -c and -p, the ready line).
"""

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from broker import __version__
from broker.common.config.properties import read_properties
from broker.common.config.settings import refuse_unserved
from broker.errors import ConfigError, RocketMQError
from broker.namesrv import config as keys
from broker.namesrv.config import NamesrvConfig
from broker.namesrv.settings import LiveSettings
from broker.remoting.process import daemon
from broker.remoting.security.tls import check_files
from broker.remoting.server import raise_file_limit

log = logging.getLogger("broker.namesrv")

OPEN_FILES_SPARE = 1_000
"""Descriptors reserved for files and sockets other than peer connections."""


def argument_parser() -> argparse.ArgumentParser:
    """Return the argument parser of mqnamesrv."""
    parser = daemon.OptionParser(
        prog="mqnamesrv",
        description="RocketMQ name server: keeps the routes that brokers register.",
        epilog="example: mqnamesrv -c namesrv.conf --listen 0.0.0.0:9876 --log-dir /var/log/mq",
    )
    parser.add_argument("-c", "--config", metavar="FILE", help="namesrv.conf (Java properties)")
    parser.add_argument(
        "-p",
        "--print-config",
        action="store_true",
        help="print the effective settings with their origins and exit",
    )
    parser.add_argument(
        "--listen",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="address to listen on, repeatable (default 127.0.0.1:9876)",
    )
    parser.add_argument("--check", action="store_true", help="check the settings and exit")
    daemon.add_log_arguments(parser)
    parser.add_argument("--version", action="version", version=f"mqnamesrv {__version__}")
    return parser


def read_settings(path: str | None) -> LiveSettings:
    """Read the settings of a file; missing keys get defaults.

    Raises ConfigError naming file, key and value.
    """
    if path is None:
        return LiveSettings(_with_paths(NamesrvConfig()))
    properties = read_properties(path)
    try:
        refuse_unserved(keys.UNSERVED_KEYS, properties)
        config = keys.from_properties(properties)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", error.hint) from error
    if not config.config_store_path:
        config = msgspec.structs.replace(config, config_store_path=str(Path(path).absolute()))
    unknown = {key: properties[key] for key in keys.unknown_keys(properties)}
    return LiveSettings(_with_paths(config), unknown, dict.fromkeys(properties, path))


def _with_paths(config: NamesrvConfig) -> NamesrvConfig:
    """Fill in the default paths, so that every listing of the settings shows them."""
    return msgspec.structs.replace(
        config, kv_config_path=config.kv_path, config_store_path=config.store_path
    )


def bind(settings: LiveSettings, options: Sequence[str]) -> list[tuple[str, int]]:
    """Return the addresses to listen on; the settings are updated with the first one."""
    config = settings.config
    listen = daemon.choose_listen(
        options, port=config.listen_port, configured_host=config.bind_address
    )
    host, port = listen[0]
    if options:
        settings.origins["bindAddress"] = settings.origins["listenPort"] = "--listen"
    settings.config = msgspec.structs.replace(config, bind_address=host, listen_port=port)
    return listen


async def serve(
    settings: LiveSettings, listen: Sequence[tuple[str, int]], stop: asyncio.Event
) -> int:
    """Run a name server until ``stop`` is set; returns the exit status."""
    from broker.namesrv.server import NameServer

    wanted = settings.config.max_connections + OPEN_FILES_SPARE
    allowed = raise_file_limit(wanted)
    if allowed < settings.config.max_connections:
        log.warning("only %d files may be open: fewer connections than maxConnections", allowed)
    server = NameServer(settings=settings)
    await server.start(listen)
    try:
        daemon.ready(
            "The Name Server boot success. serializeType=JSON, "
            f"address {', '.join(server.addresses)}"
        )
        await stop.wait()
    finally:
        await server.close()
        log.info("name server stopped")
    return daemon.STATUS_OK


def main(argv: Sequence[str] | None = None) -> int:
    """Run mqnamesrv; returns its exit status."""
    options = argument_parser().parse_args(argv)
    try:
        daemon.refuse_print_and_check(options)
        settings = read_settings(options.config)
        daemon.configure_logging(
            daemon.LogOptions(
                name="namesrv",
                format=options.log_format,
                directory=options.log_dir,
                level=options.log_level,
            )
        )
        if settings.unknown:
            log.warning(
                "%s: keys this name server does not use are kept: %s",
                options.config,
                ", ".join(settings.unknown),
            )
        listen = bind(settings, options.listen)
        if options.check:
            check_files(settings.config)
    except RocketMQError as error:
        return daemon.report(error)
    if options.print_config:
        return daemon.print_lines(settings.lines())
    if options.check:
        return daemon.print_lines(["the settings are valid"])
    return daemon.run(lambda stop: serve(settings, listen, stop))


if __name__ == "__main__":
    sys.exit(main())
