"""Load a file of ``config/``, or its backup if the file cannot be used.

**Source:** RocketMQ ConfigManager#load, #loadBak.
"""

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from broker.errors import RocketMQError, StoreError
from broker.store.config_file import ConfigFile

log = logging.getLogger("broker.server")

Content = TypeVar("Content")


def load_config(
    file: ConfigFile, decode: Callable[[str], Content], *, report: bool = True
) -> Content | None:
    """Return the decoded file, else its backup, None if neither has a text.

    The use of the backup is logged, and a file that lost its text: the broker starts without it,
    as Java does. StoreError when neither can be decoded, or when a file cannot be read.
    """
    try:
        text = file.load()
        if not text.strip():
            if report and file.exists():
                log.error("%s: is empty, and there is no backup: its content is lost", file.path)
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
    raise StoreError(
        f"{file.path}: {error.message}",
        "neither the file nor its .bak can be read; repair one, or see the plan of"
        " `mqadmin store repair`",
        path=file.path,
    ) from error


class CheckedDecoder(Generic[Content]):
    """Decodes a file that is read twice, by the check of all files and when it is loaded.

    Decoding 100,000 topics takes a second, so loading the same text returns the result of the
    check, once: the caller may change it.
    """

    def __init__(self, decode: Callable[[str], Content]) -> None:
        self._decode = decode
        self._checked: tuple[str, Content] | None = None

    def check(self, text: str) -> Content:
        """Return the decoded text, and keep it; errors of the decoder pass through."""
        content = self._decode(text)
        self._checked = text, content
        return content

    def load(self, text: str) -> Content:
        """Return the result of the last check if it had the same text, else the decoded text."""
        checked, self._checked = self._checked, None
        if checked is not None and checked[0] == text:
            return checked[1]
        return self._decode(text)
