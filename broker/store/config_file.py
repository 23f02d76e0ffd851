"""ConfigFile: a small JSON file of ``config/``, replaced as a whole or not at all.

The new text is written beside the file and synced, the old one becomes ``.bak``, then the new one
takes its place: at any moment a reader finds a whole file or its backup. (Java 5.0 to 5.3.3
overwrites in place.)

**Source:** RocketMQ ConfigManager, MixAll#string2File, MixAll#file2String.
"""

import os

from broker.store.files import Disk, make_durable_folder


class ConfigFile:
    """One file of the store's configuration, by path."""

    def __init__(self, path: str, disk: Disk | None = None) -> None:
        self.path = path
        # True when the file was of no use: the backup is then kept at the next write.
        self.backup_counts = False
        self._disk = disk if disk is not None else Disk()

    @property
    def backup_path(self) -> str:
        """Path of the version before the last."""
        return self.path + ".bak"

    def load(self) -> str:
        """The text, of the backup if the file is missing or empty; empty if there is neither.

        OSError when a file is there and cannot be read: an older text must not take its place.
        """
        text = self._read(self.path)
        self.backup_counts = False
        if text.strip():
            return text
        backup = self._read(self.backup_path)
        self.backup_counts = bool(backup.strip())
        return backup

    def load_backup(self) -> str:
        """The text of the backup, for a caller that could not make sense of :meth:`load`."""
        return self._read(self.backup_path)

    def persist(self, text: str) -> None:
        """Replace the text; on the disk when it returns. StoreError or OSError leaves the old.

        The old text becomes the backup, unless it is one that gave way to its backup: of file and
        backup one is good at any moment.
        """
        disk = self._disk
        folder = os.path.dirname(self.path)
        make_durable_folder(disk, folder)
        temporary = self.path + ".tmp"
        disk.write(temporary, text.encode("utf-8"))
        if not self.backup_counts and disk.exists(self.path):
            # A second name for the old text, then the new text over the first: never a moment
            # without a file.
            spare = self.backup_path + ".tmp"
            disk.unlink(spare)
            disk.link(self.path, spare)
            disk.rename(spare, self.backup_path)
        disk.rename(temporary, self.path)
        disk.sync_folder(folder)
        self.backup_counts = False

    def _read(self, path: str) -> str:
        try:
            return self._disk.read(path).decode("utf-8", "replace").strip("\0")
        except FileNotFoundError:
            return ""
