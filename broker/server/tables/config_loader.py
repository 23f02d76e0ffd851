"""Load a file of ``config/``, or its backup if the file cannot be used.

**Source:** RocketMQ ConfigManager#load, #loadBak.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from broker.errors import ConfigError, RocketMQError, StoreError
from broker.store.config_file import ConfigFile

log = logging.getLogger("broker.server")

Content = TypeVar("Content")


def load_config(
    file: ConfigFile, decode: Callable[[str], Content], *, report: bool = True
) -> Content | None:
    """Return the decoded file, else its backup, None if neither exists; log the use of the backup.

    ConfigError when neither can be decoded, StoreError when a file cannot be read.
    """
    try:
        text = file.load()
        if not text.strip():
            return None
        try:
            content, reason = decode(text), "is missing or empty"
        except RocketMQError as error:
            backup = "" if file.backup_counts else file.load_backup()
            content, reason = _decode_backup(file, backup, decode, error), error.message
            file.backup_counts = True
    except OSError as error:
        raise StoreError(
            f"{file.path}: {error.strerror or error}",
            "check the disk; nothing was changed",
            path=file.path,
        ) from error
    if file.backup_counts and report:
        log.warning("%s: %s: %s is used", file.path, reason, file.backup_path)
    return content


def _decode_backup(
    file: ConfigFile, backup: str, decode: Callable[[str], Content], error: RocketMQError
) -> Content:
    if backup.strip():
        try:
            return decode(backup)
        except RocketMQError:
            pass
    raise ConfigError(
        f"{file.path}: {error.message}",
        "neither the file nor its .bak can be read; repair one, or see the plan of"
        " `mqadmin store repair`",
    ) from error
