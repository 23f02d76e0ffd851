"""LiveSettings: the effective settings, their origins, and changes at run time.

**Source:** RocketMQ Configuration, DefaultRequestProcessor#updateConfig.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from broker.common.config.properties import format_properties, patch_properties
from broker.common.config.secrets import MASK, mask_secrets
from broker.common.text import escape_control
from broker.errors import BrokerError, ConfigError
from broker.namesrv import config as keys
from broker.namesrv import files
from broker.namesrv.config import NamesrvConfig
from broker.remoting.protocol.codes import ResponseCode

log = logging.getLogger("broker.namesrv")


class LiveSettings:
    """The effective ``config``; ``unknown`` keys are kept unchanged.

    ``origins`` maps a key to the origin of its value (file or option); other keys have their
    default. ``on_change`` is called with the new config after a change.
    """

    def __init__(
        self,
        config: NamesrvConfig,
        unknown: Mapping[str, str] | None = None,
        origins: Mapping[str, str] | None = None,
    ) -> None:
        self.config = config
        self.unknown = dict(unknown or {})
        self.origins = dict(origins or {})
        self.on_change: Callable[[NamesrvConfig], None] | None = None

    def as_text(self, *, administrator: bool) -> str:
        """Return all effective keys, including unknown ones, as properties text.

        Secrets are masked; for peers other than administrators also the values of unknown keys.
        """
        unknown = self.unknown if administrator else dict.fromkeys(self.unknown, MASK)
        return format_properties(mask_secrets({**unknown, **keys.to_properties(self.config)}))

    def lines(self) -> list[str]:
        """Return ``key=value  # origin`` for each key, for ``-p``; secrets are masked."""
        values = mask_secrets({**keys.to_properties(self.config), **self.unknown})
        return [
            escape_control(f"{key}={value}  # {self.origins.get(key, 'default')}")
            for key, value in values.items()
        ]

    def update(self, changes: Mapping[str, str]) -> None:
        """Change and store settings: either all of them or none.

        Raises BrokerError: NO_PERMISSION for an unknown key, a key on the black list or one that
        cannot change at run time, SYSTEM_ERROR for an invalid value.
        """
        black = keys.black_list(self.config)
        for key in changes:
            field = keys.FIELD_OF_KEY.get(key)
            if key in black:
                raise BrokerError(ResponseCode.NO_PERMISSION, f"{key} is on the black list")
            if field is None:
                raise BrokerError(ResponseCode.NO_PERMISSION, f"{key} is not a name server setting")
            if not keys.SETTINGS[field].live:
                raise BrokerError(
                    ResponseCode.NO_PERMISSION, f"{key} cannot change while running: restart"
                )
        try:
            config = keys.from_properties(changes, self.config)
        except ConfigError as error:
            raise BrokerError(ResponseCode.SYSTEM_ERROR, error.message) from error
        before = keys.to_properties(self.config)
        self._persist(changes)
        self.config = config
        for key, value in changes.items():
            self.origins[key] = "changed while running"
            log.info("setting %s: %s -> %s", key, before[key], value)
        if self.on_change is not None:
            self.on_change(config)

    def _persist(self, changes: Mapping[str, str]) -> None:
        path = self.config.store_path
        old = Path(path).read_bytes() if Path(path).exists() else b""
        files.write_atomically(path, patch_properties(old, changes))
