"""The version of a table, by which name servers and slaves detect changes.

**Source:** RocketMQ DataVersion.
"""

from broker.store.format import config as files


class DataVersion:
    """(stateVersion, timestamp, counter); two versions are equal if all three are.

    ``state_version`` is None for a table read from a 4.9 file, which keeps that format.
    """

    __slots__ = ("counter", "state_version", "timestamp")

    def __init__(self, timestamp: int = 0, counter: int = 0, state_version: int | None = 0) -> None:
        self.timestamp = timestamp
        self.counter = counter
        self.state_version = state_version

    def bump(self, now_ms: int) -> None:
        """Record one change at ``now_ms``."""
        self.timestamp = now_ms
        self.counter += 1

    def to_wire(self) -> dict[str, int]:
        """Return the JSON object that Java writes, fields sorted."""
        return {
            "counter": self.counter,
            "stateVersion": self.state_version or 0,
            "timestamp": self.timestamp,
        }

    def to_file(self) -> files.DataVersion:
        """Return the value for a configuration file."""
        return files.DataVersion(
            counter=self.counter, state_version=self.state_version, timestamp=self.timestamp
        )

    def assign(self, version: files.DataVersion | None) -> None:
        """Copy the version read from a file; None changes nothing."""
        if version is not None:
            self.counter = version.counter
            self.state_version = version.state_version
            self.timestamp = version.timestamp
