"""The version of a table."""

from broker.server.tables.data_version import DataVersion
from broker.store.format import config as files


def test_change_sets_the_time_and_counts() -> None:
    version = DataVersion()
    version.bump(7)
    version.bump(9)
    assert version.to_wire() == {"counter": 2, "stateVersion": 0, "timestamp": 9}


def test_file_of_49_has_no_state_version() -> None:
    version = DataVersion()
    version.assign(files.DataVersion(counter=3, state_version=None, timestamp=5))
    assert version.to_wire()["stateVersion"] == 0
    assert version.to_file() == files.DataVersion(counter=3, state_version=None, timestamp=5)


def test_nothing_changes_nothing() -> None:
    version = DataVersion(5, 1)
    version.assign(None)
    assert (version.timestamp, version.counter) == (5, 1)
