"""ConfigFile: a small JSON file of ``config/`` that is replaced atomically.

The new text is written to ``.tmp`` and synced, the old file is linked as ``.bak``, then the new
file is renamed over the old one: a complete file or backup exists at every moment. (Java 5.0 to
5.3.3 overwrites in place.)

**Source:** RocketMQ ConfigManager, MixAll#string2File, MixAll#file2String.
"""

import os

from broker.store.logfile.disk import Disk, make_durable_folder


class ConfigFile:
    """One configuration file with its backup."""

    def __init__(self, path: str, disk: Disk | None = None) -> None:
        self.path = path
        # True if the backup was used, set by load() or by a caller that cannot parse the file: the
        # next write must not replace the backup by the bad file.
        self.backup_counts = False
        self._disk = disk if disk is not None else Disk()

    @property
    def backup_path(self) -> str:
        """Path of the previous version."""
        return self.path + ".bak"

    def exists(self) -> bool:
        """Whether the file itself exists, whatever it contains."""
        return self._disk.exists(self.path)

    def load(self) -> str:
        """Read the text, from the backup if the file is missing or empty; empty without both.

        OSError if a file exists and cannot be read: an older text must not replace it.
        """
        text = self._read(self.path)
        self.backup_counts = False
        if text.strip():
            return text
        backup = self._read(self.backup_path)
        self.backup_counts = bool(backup.strip())
        return backup

    def load_backup(self) -> str:
        """Read the text of the backup, for a caller that cannot parse the text of :meth:`load`."""
        return self._read(self.backup_path)

    def persist(self, text: str) -> None:
        """Replace the text; it is on the disk on return. StoreError or OSError leaves the old one.

        The old text becomes the backup, unless the backup was used in its place: so one of file
        and backup is valid at every moment.
        """
        disk = self._disk
        folder = os.path.dirname(self.path)
        make_durable_folder(disk, folder)
        temporary = self.path + ".tmp"
        disk.write(temporary, text.encode("utf-8"))
        disk.keep_mode(self.path, temporary)
        if not self.backup_counts and disk.exists(self.path):
            # Hard link for the old text, then rename the new text over it: the file always exists.
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
