"""The role file: keys that override broker.conf, and files that stop the start."""

import json
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.server.configuration.settings import Settings
from broker.server.role.role_state import EpochStart, RoleFile, RoleState
from broker.store.logfile.disk import Disk
from tests.support.json_mutations import failures

MASTER = RoleState(
    role="MASTER",
    master_role="SYNC_MASTER",
    epoch=3,
    voted_epoch=3,
    voted_for="10.0.0.1:10911",
    had_slaves=True,
    replaced_master="10.0.0.2:10911",
    replication_properties={"inSyncReplicas": "2"},
    epochs=(EpochStart(epoch=1, start_offset=0), EpochStart(epoch=3, start_offset=77)),
)


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = RoleFile(str(tmp_path), Disk())
    assert file.load() == RoleState()
    file.persist(MASTER)
    assert file.load() == MASTER


def test_every_cut_of_the_file_is_refused_and_names_it(tmp_path: Path) -> None:
    file = RoleFile(str(tmp_path), Disk())
    file.persist(MASTER)
    path = Path(file.path)
    whole = path.read_bytes()
    for end in range(1, len(whole) - 2):
        path.write_bytes(whole[:end])
        with pytest.raises(StoreError, match="not a broker role"):
            RoleFile(str(tmp_path), Disk()).load()


def test_a_master_keeps_its_durability_and_a_slave_waits_for_no_slave() -> None:
    configured = Settings({"brokerRole": "SLAVE", "brokerId": "1", "haMasterAddress": "h:1"})
    master = configured.with_role(MASTER.overlay(), "file")
    assert (master.broker.broker_role, master.broker.broker_id) == ("SYNC_MASTER", 0)
    assert master.ha.in_sync_replicas == 2
    assert master.origin("brokerRole") == "file"
    slave = RoleState(role="SLAVE", broker_id=2, replication_properties={"inSyncReplicas": "2"})
    demoted = Settings({"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}).with_role(
        slave.overlay(), "file"
    )
    assert (demoted.broker.broker_role, demoted.broker.broker_id) == ("SLAVE", 2)
    assert demoted.ha.in_sync_replicas == 1
    assert demoted.ha.ha_master_address == ""


def test_without_a_role_broker_conf_decides() -> None:
    assert RoleState(voted_epoch=4, had_slaves=True).overlay() == {}


@pytest.mark.parametrize("role", ["master", "LEADER", "x"])
def test_an_unknown_role_stops_the_start(tmp_path: Path, role: str) -> None:
    """Otherwise broker.conf would decide, and could bring a replaced master back."""
    file = RoleFile(str(tmp_path), Disk())
    file.persist(MASTER)
    path = Path(file.path)
    path.write_text(path.read_text().replace('"MASTER"', f'"{role}"'))
    with pytest.raises(StoreError, match=f"role '{role}' is unknown"):
        file.load()


def test_a_value_of_another_type_is_accepted_or_stops_the_start(tmp_path: Path) -> None:
    file = RoleFile(str(tmp_path), Disk())
    file.persist(MASTER)
    path = Path(file.path)
    document = json.loads(path.read_text())

    def load(changed: object) -> None:
        path.write_text(json.dumps(changed))
        state = file.load()
        assert state.role in ("", "MASTER", "SLAVE")
        file.persist(state)
        assert file.load() == state

    _, wrong = failures(load, document, StoreError)
    assert wrong == []
