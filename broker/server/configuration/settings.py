"""The effective settings with their origin: command line, file, default, or run-time change.

The keys of one broker.conf belong to the broker role, to the store, or to neither (unknown keys,
which are kept, shown and listed once in a warning).

**Source:** RocketMQ BrokerStartup (order of sources), Configuration.
"""

import logging
import os
from collections.abc import Mapping
from typing import Final

import msgspec

from broker.common.config.properties import patch_properties
from broker.common.config.secrets import MASK, is_secret, mask_secrets
from broker.common.config.settings import refuse_unserved
from broker.errors import ConfigError, StoreError
from broker.server.configuration import config as role
from broker.server.configuration.config import BrokerConfig
from broker.server.configuration.unserved import UNSERVED_KEYS
from broker.server.ha import config as replication
from broker.server.ha.config import HaConfig
from broker.server.tables.data_version import DataVersion
from broker.store import config as engine
from broker.store.config import MessageStoreConfig
from broker.store.logfile.disk import Disk

log = logging.getLogger("broker.server")

DEFAULT: Final = "default"
ALWAYS_BLACK: Final = {"brokerConfigPath", "rocketmqHome", "configBlackList"}

# Keys of Java threads and add-ons that tools read: shown with these values, without effect.
REPORTED: Final = {
    "serverSelectorThreads": "3",
    "serverWorkerThreads": "8",
    "useEpollNativeSelector": "false",
    "filterServerNums": "0",
    "useTLS": "false",
    "aclEnable": "false",
    "authenticationEnabled": "false",
    "authorizationEnabled": "false",
    "enableDLegerCommitLog": "false",
    "enableControllerMode": "false",
    "storeType": "default",
}


class Settings:
    """All configured keys, and the typed settings of broker and store built from them."""

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
        refuse_unserved(UNSERVED_KEYS, self.properties)
        self.broker = role.from_properties(self.properties, broker)
        self.store = engine.from_properties(self.properties, *(() if store is None else (store,)))
        self.ha: HaConfig = replication.from_properties(self.properties)
        replication.check_roles(self.broker, self.ha)
        self.version = DataVersion()

    @property
    def unknown(self) -> list[str]:
        """Configured keys that are not recognised, sorted."""
        known = role.FIELD_OF_KEY.keys() | engine.FIELD_OF_KEY.keys() | REPORTED.keys()
        known |= replication.FIELD_OF_KEY.keys()
        known |= {key.key for key in UNSERVED_KEYS}
        return sorted(key for key in self.properties if key not in known)

    def shown(self, *, administrator: bool = True) -> dict[str, str]:
        """Return every key with its effective value; unknown keys unchanged, secrets masked.

        The values of unknown keys are masked too unless ``administrator`` is set.
        """
        hidden = {} if administrator else dict.fromkeys(self.unknown, MASK)
        return mask_secrets(
            {
                **REPORTED,
                **self.properties,
                **engine.to_properties(self.store),
                **role.to_properties(self.broker),
                **replication.to_properties(self.ha),
                **hidden,
            }
        )

    def origin(self, key: str) -> str:
        """Return the origin of a key's value."""
        return self.origins.get(key, DEFAULT)

    def set_address(self, host: str, port: int, *, origin: str = "") -> None:
        """Replace the configured address with the actual listening address."""
        self.broker = msgspec.structs.replace(self.broker, bind_address=host, listen_port=port)
        if origin:
            self.origins.update(bindAddress=origin, listenPort=origin)

    def with_role(self, overlay: Mapping[str, str], origin: str) -> "Settings":
        """Return a copy in which ``overlay`` replaces keys; ``origin`` names its source.

        ConfigError if the keys contradict the others.
        """
        copy = Settings(
            {**self.properties, **overlay},
            origins={**self.origins, **dict.fromkeys(overlay, origin)},
            path=self.path,
        )
        config = self.broker
        copy.broker = msgspec.structs.replace(
            copy.broker,
            bind_address=config.bind_address,
            listen_port=config.listen_port,
            namesrv_addr=config.namesrv_addr,
        )
        copy.store = engine.from_properties(self.properties, self.store)
        return copy

    def set_name_server(self, address: str) -> None:
        """Register with the name server of this process (``--standalone``)."""
        self.broker = msgspec.structs.replace(self.broker, namesrv_addr=address)
        self.origins["namesrvAddr"] = "--standalone"

    def warn_unknown(self) -> None:
        """Log the unknown keys, once, in one line, and the limit of SYNC_MASTER."""
        if self.unknown:
            log.warning("keys without effect here, kept: %s", " ".join(self.unknown))
        if self.broker.broker_role == "SYNC_MASTER" and self.ha.in_sync_replicas == 1:
            log.warning(
                "brokerRole=SYNC_MASTER: sends wait for no replica, as in RocketMQ 5 with"
                " inSyncReplicas=1 (RocketMQ 4 waits for a slave; set inSyncReplicas=2)"
            )

    def reject_reason(self, changes: Mapping[str, str]) -> str | None:
        """Return the reason why these changes are refused, None if they are allowed."""
        black = ALWAYS_BLACK | {
            key.strip() for key in self.broker.config_black_list.split(";") if key.strip()
        }
        if any(key in black for key in changes):
            return "Can not update config in black list."
        if any(is_secret(key) for key in changes):
            return "Secrets are changed in the configuration file only."
        try:
            refuse_unserved(UNSERVED_KEYS, changes)
        except ConfigError as error:
            return error.message
        stuck = [key for key in changes if self._fixed(key)]
        if stuck:
            return f"needs a restart with a changed configuration file: {' '.join(sorted(stuck))}"
        return None

    def _fixed(self, key: str) -> bool:
        for owner in (role, engine, replication):
            field = owner.FIELD_OF_KEY.get(key)
            if field is not None:
                return not owner.SETTINGS[field].live
        return key in REPORTED

    def update(self, changes: Mapping[str, str], now_ms: int) -> None:
        """Write live settings to the file, then apply them.

        ConfigError when a value is invalid, StoreError when the file cannot be written; neither
        changes anything.
        """
        known = role.FIELD_OF_KEY.keys() | engine.FIELD_OF_KEY.keys()
        wanted = {key: value for key, value in changes.items() if key in known}
        if not wanted:
            return
        broker = role.from_properties(wanted, self.broker)
        store = engine.from_properties(wanted, self.store)
        if self.path:
            _rewrite(self.path, wanted)
        self.broker, self.store = broker, store
        self.properties.update(wanted)
        self.origins.update(dict.fromkeys(wanted, "updated while running"))
        self.version.bump(now_ms)


def _rewrite(path: str, changes: Mapping[str, str]) -> None:
    """Change keys in a properties file; keep comments and the order of lines.

    The file is replaced by a rename. StoreError when it cannot be written.
    """
    temporary = f"{path}.tmp"
    disk = Disk()
    try:
        disk.write(temporary, patch_properties(disk.read(path), changes))
        disk.rename(temporary, path)
        disk.sync_folder(os.path.dirname(os.path.abspath(path)))
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written: {error.strerror or error}", "nothing was changed"
        ) from error
