"""Reading timerwheel, timerlog and timercheck."""

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.errors import RemoteProtocolError
from broker.store.format.commitlog import Damage
from mqadmin.inspector.delayed.timer_files import TimerFiles
from mqadmin.inspector.directory import StoreDirectory


def test_slots_lead_to_their_units(delay_store: StoreDirectory) -> None:
    with TimerFiles(delay_store) as files:
        slots = dict(files.slots())
        assert len(slots) == 10
        assert len(files.pending_slots(files.read_ms())) == 7
        for slot in slots.values():
            chain = [unit for _, unit in files.chain(slot)]
            assert None not in chain
            for unit in chain:
                assert unit is not None
                assert (unit.current_write_time + unit.delayed_ms) // 1000 == slot.time
        assert len(list(files.units())) == 16


def test_a_chain_ends_at_a_unit_that_is_missing(delay_store: StoreDirectory) -> None:
    with TimerFiles(delay_store) as files:
        _, slot = next(files.slots())
        assert [unit for _, unit in files.chain(slot._replace(last_position=7))] == [None]
        assert files.unit(-1) is None
        assert files.unit(1 << 40) is None


def test_a_damaged_unit_is_reported(golden_store: Callable[..., Path]) -> None:
    folder = golden_store("delay-533", copy=True) / "store"
    with open(folder / "timerlog" / "00000000000000000000", "r+b") as file:
        file.seek(104)
        file.write(b"\xff" * 52)
    with TimerFiles(StoreDirectory(folder)) as files:
        found = list(files.units())
        assert [position for _, position, _ in found] == [0, 52, 104]
        assert isinstance(found[2][2], Damage)


def test_a_checkpoint_that_is_too_short_is_an_error(golden_store: Callable[..., Path]) -> None:
    folder = golden_store("delay-533", copy=True) / "store"
    (folder / "config" / "timercheck").write_bytes(b"\0" * 10)
    with TimerFiles(StoreDirectory(folder)) as files:
        with pytest.raises(RemoteProtocolError):
            files.checkpoint()
        assert files.read_ms() == 0
