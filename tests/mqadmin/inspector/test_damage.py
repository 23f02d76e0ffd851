"""Rows of corruption: severity, advice per kind, checkpoint times."""

import pytest

from broker.store.format.commitlog import DAMAGE_KINDS, Damage
from mqadmin.inspector.damage import (
    AT_END,
    ERROR,
    KINDS,
    LAST_MS,
    WARNING,
    checkpoint_damage,
    damage_row,
    found,
)
from mqadmin.inspector.rows import CheckpointRow


@pytest.mark.parametrize("kind", DAMAGE_KINDS)
def test_every_kind_of_the_scanner_has_advice(kind: str) -> None:
    damage = Damage(kind=kind, physical_offset=7, length=9, detail="x")
    row = damage_row(damage, "/s/commitlog/0")
    assert (row.kind, row.severity, row.path) == (kind, ERROR, "/s/commitlog/0")
    assert (row.physical_offset, row.length, row.detail) == (7, 9, "x")
    assert row.suggestion == KINDS[kind].advice
    assert row.suggestion


def test_a_torn_end_is_a_warning_with_its_own_advice() -> None:
    damage = Damage(kind="truncated", physical_offset=7, length=9, detail="x", at_end=True)
    row = damage_row(damage, "/s")
    assert (row.severity, row.suggestion) == (WARNING, AT_END)


def test_advice_may_be_given_and_follows_from_the_kind_otherwise() -> None:
    assert found("gap", "/s", "x").suggestion == KINDS["gap"].advice
    assert found("gap", "/s", "x", suggestion="do this").suggestion == "do this"
    assert found("gap", "/s", "x", severity=WARNING).severity == WARNING
    with pytest.raises(KeyError):
        found("unknown", "/s", "x")


@pytest.mark.parametrize("value", [-1, LAST_MS + 1])
@pytest.mark.parametrize(
    "name", ["physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp"]
)
def test_a_checkpoint_time_outside_the_calendar_is_reported(name: str, value: int) -> None:
    fields = {
        "physic_msg_timestamp": 5,
        "logics_msg_timestamp": LAST_MS,
        "index_msg_timestamp": None,
        name: value,
    }
    row = CheckpointRow(path="/s/c", master_flushed_offset=0, confirm_physical_offset=0, **fields)
    (damage,) = checkpoint_damage(row)
    assert (damage.kind, damage.severity, damage.path) == ("checkpoint", WARNING, "/s/c")
    assert str(value) in damage.detail
