"""Rows of corruption: severity, advice per kind, checkpoint times."""

import re

import pytest

from broker.store.format.commitlog import DAMAGE_KINDS, Damage
from mqadmin.command.framework.nouns import NOUNS
from mqadmin.inspector.damage import (
    AT_END,
    ERROR,
    KINDS,
    LAST_MS,
    LOG_KINDS,
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


NAMES = {"Java", "IndexFile", "CommitLog", "ConsumeQueue"}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_meaning_and_a_next_step_of_one_line(kind: str) -> None:
    """They are printed in tables and man pages, and read while a store is damaged."""
    meaning, advice = KINDS[kind]
    for text in (meaning, advice):
        assert 10 < len(text) < 120
        assert text == text.strip()
        assert "\n" not in text
        assert not text.endswith(".")
        assert text[0].islower() or text.startswith(
            ("Java", "IndexFile", "CommitLog", "ConsumeQueue")
        )
    assert meaning != advice


def test_no_kind_has_the_meaning_of_another() -> None:
    meanings = [kind.meaning for kind in KINDS.values()]
    assert len(set(meanings)) == len(meanings)
    assert set(LOG_KINDS) >= set(DAMAGE_KINDS)


def test_commands_named_in_an_advice_exist() -> None:
    """An operator pastes them."""
    for kind in KINDS.values():
        for noun in re.findall(r"mqadmin (\w+)", kind.advice):
            assert noun in NOUNS, kind.advice


def test_a_position_in_a_derived_file_is_reported_as_the_offset() -> None:
    row = found("unit", "/s/consumequeue/T/0/0", "x", file_position=40, length=20)
    assert (row.physical_offset, row.length) == (40, 20)
    assert found("unit", "/s", "x", file_position=0, physical_offset=9).physical_offset == 0
    assert found("gap", "/s", "x").physical_offset is None


def test_times_within_the_calendar_are_sound() -> None:
    row = CheckpointRow(
        path="/s/c",
        physic_msg_timestamp=0,
        logics_msg_timestamp=LAST_MS,
        index_msg_timestamp=None,
        master_flushed_offset=0,
        confirm_physical_offset=0,
    )
    assert checkpoint_damage(row) == []
