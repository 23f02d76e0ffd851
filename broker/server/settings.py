"""The settings in force with their origin: command line, file, default, or changed at run time.

Three owners read one broker.conf: the broker role, the store, and nobody (unknown keys, which
are kept, shown and named once in a warning).

**Source:** RocketMQ BrokerStartup (order of sources), Configuration.
"""

import logging
import os
from collections.abc import Mapping
from typing import Final

import msgspec

from broker.common.properties import format_properties, parse_properties
from broker.errors import ConfigError
from broker.server import config as role
from broker.server.config import BrokerConfig
from broker.server.data_version import DataVersion
from broker.store import config as engine
from broker.store.config import MessageStoreConfig

log = logging.getLogger("broker.server")

DEFAULT: Final = "default"
ALWAYS_BLACK: Final = {"brokerConfigPath", "rocketmqHome", "configBlackList"}

# Keys of Java's threads and add-ons that tools look for: shown as they stand, without effect.
REPORTED: Final = {
    "serverSelectorThreads": "3",
    "serverWorkerThreads": "8",
    "useEpollNativeSelector": "false",
    "slaveReadEnable": "false",
    "filterServerNums": "0",
    "useTLS": "false",
    "timerWheelEnable": "false",
    "aclEnable": "false",
    "authenticationEnabled": "false",
    "authorizationEnabled": "false",
    "enableDLegerCommitLog": "false",
    "enableControllerMode": "false",
    "haListenPort": "10912",
    "storeType": "default",
}

# Keys that promise something this broker would silently not keep: it does not start with them.
_ACCESS: Final = "access control is not served, everybody would be let in"
_REPLICAS: Final = "the log would have no replicas"
NOT_SERVED: Final = {
    "aclEnable": _ACCESS,
    "authenticationEnabled": _ACCESS,
    "authorizationEnabled": _ACCESS,
    "enableDLegerCommitLog": _REPLICAS,
    "enableControllerMode": _REPLICAS,
    "storeType": "ConsumeQueues in RocksDB are not read or written",
}


def check_served(properties: Mapping[str, str]) -> None:
    """ConfigError for a key that asks for what this broker does not do."""
    for key, reason in NOT_SERVED.items():
        value = properties.get(key, REPORTED[key]).strip()
        if value.lower() != REPORTED[key]:
            raise ConfigError(
                f"{key}={value}: {reason}", f"set {key}={REPORTED[key]}, or run Java's broker"
            )


class Settings:
    """Everything that was configured, by key, and the two typed views of it."""

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        origins: Mapping[str, str] | None = None,
        path: str = "",
        broker: BrokerConfig = role.DEFAULTS,
        store: MessageStoreConfig | None = None,
    ) -> None:
        self.properties = dict(properties or {})
        self.origins = dict(origins or {})
        self.path = path
        check_served(self.properties)
        self.broker = role.from_properties(self.properties, broker)
        self.store = engine.from_properties(self.properties, *(() if store is None else (store,)))
        self.version = DataVersion()

    @property
    def unknown(self) -> list[str]:
        """Configured keys that nobody reads, sorted."""
        known = role.FIELD_OF_KEY.keys() | engine.FIELD_OF_KEY.keys() | REPORTED.keys()
        return sorted(key for key in self.properties if key not in known)

    def shown(self) -> dict[str, str]:
        """Every key with its value in force; unknown ones as they were written."""
        return {
            **REPORTED,
            **self.properties,
            **engine.to_properties(self.store),
            **role.to_properties(self.broker),
        }

    def origin(self, key: str) -> str:
        """Where a key's value comes from."""
        return self.origins.get(key, DEFAULT)

    def set_address(self, host: str, port: int, *, origin: str = "") -> None:
        """The address really listened on stands in for what the file said."""
        self.broker = msgspec.structs.replace(self.broker, bind_address=host, listen_port=port)
        if origin:
            self.origins.update(bindAddress=origin, listenPort=origin)

    def set_name_server(self, address: str) -> None:
        """Register with the name server of this process (standalone)."""
        self.broker = msgspec.structs.replace(self.broker, namesrv_addr=address)
        self.origins["namesrvAddr"] = "--standalone"

    def warn_unknown(self) -> None:
        """Name the keys that have no effect, once, in one line."""
        if self.unknown:
            log.warning("keys without effect here, kept: %s", " ".join(self.unknown))

    def why_not(self, changes: Mapping[str, str]) -> str | None:
        """Why these changes are refused, None if they may be made."""
        black = ALWAYS_BLACK | {
            key.strip() for key in self.broker.config_black_list.split(";") if key.strip()
        }
        if any(key in black for key in changes):
            return "Can not update config in black list."
        stuck = [key for key in changes if self._fixed(key)]
        if stuck:
            return f"needs a restart with a changed configuration file: {' '.join(sorted(stuck))}"
        return None

    def _fixed(self, key: str) -> bool:
        for owner in (role, engine):
            field = owner.FIELD_OF_KEY.get(key)
            if field is not None:
                return not owner.SETTINGS[field].live
        return key in REPORTED

    def update(self, changes: Mapping[str, str], now_ms: int) -> None:
        """Take over live settings and write them to the file; ConfigError when a value is wrong."""
        known = role.FIELD_OF_KEY.keys() | engine.FIELD_OF_KEY.keys()
        wanted = {key: value for key, value in changes.items() if key in known}
        if not wanted:
            return
        # Both are read before one is taken: a wrong value changes nothing.
        broker = role.from_properties(wanted, self.broker)
        self.store = engine.from_properties(wanted, self.store)
        self.broker = broker
        self.properties.update(wanted)
        self.origins.update(dict.fromkeys(wanted, "updated while running"))
        self.version.bump(now_ms)
        if self.path:
            _rewrite(self.path, wanted)


def read_file(path: str) -> dict[str, str]:
    """The keys of a broker.conf; ConfigError when it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "name a readable file with -c") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", error.hint) from None
    except ValueError as error:
        raise ConfigError(f"{path}: not a properties file: {error}") from None


def _rewrite(path: str, changes: Mapping[str, str]) -> None:
    """Change keys in a properties file; comments and the order of lines stay."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    left = dict(changes)
    for place, line in enumerate(lines):
        key = line.split("=", 1)[0].strip()
        if key in left and not line.lstrip().startswith(("#", "!")):
            lines[place] = format_properties({key: left.pop(key)}).strip()
    lines += [format_properties({key: value}).strip() for key, value in left.items()]
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
