"""The version a table carries so that name servers and slaves see that it has changed.

**Source:** RocketMQ DataVersion.
"""

from broker.store.format import config as files


class DataVersion:
    """(stateVersion, timestamp, counter); two versions are equal when all three are.

    ``state_version`` is None for a table read from a 4.9 file, which stays in that dialect.
    """

    __slots__ = ("counter", "state_version", "timestamp")

    def __init__(self, timestamp: int = 0, counter: int = 0, state_version: int | None = 0) -> None:
        self.timestamp = timestamp
        self.counter = counter
        self.state_version = state_version

    def bump(self, now_ms: int) -> None:
        """Note one change at ``now_ms``."""
        self.timestamp = now_ms
        self.counter += 1

    def to_wire(self) -> dict[str, int]:
        """The object Java writes, fields sorted."""
        return {
            "counter": self.counter,
            "stateVersion": self.state_version or 0,
            "timestamp": self.timestamp,
        }

    def to_file(self) -> files.DataVersion:
        """The value the configuration files carry."""
        return files.DataVersion(
            counter=self.counter, state_version=self.state_version, timestamp=self.timestamp
        )

    def assign(self, version: files.DataVersion | None) -> None:
        """Take over what a file says; None leaves everything as it is."""
        if version is not None:
            self.counter = version.counter
            self.state_version = version.state_version
            self.timestamp = version.timestamp
