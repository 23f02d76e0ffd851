"""Reading one slot: oldest first, recalls before the first message, in bounded steps."""

from pathlib import Path

import pytest

from broker.store.format.timer import LOG_UNIT_SIZE, TimerLogUnit
from broker.store.logfile.disk import Disk
from broker.store.timer.slot_reader import SlotReader
from broker.store.timer.timer_log import MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_ROLL, TimerLog
from broker.store.timer.timer_wheel import Chain


class Slot:
    """A slot whose units are numbered by their physical offset."""

    def __init__(self, folder: Path) -> None:
        self.log = TimerLog(Disk(), str(folder / "timerlog"), 52 * 100 + 16)
        self.last = -1
        self.number = 0

    def add(self, magic: int = MAGIC_DEFAULT) -> int:
        self.number += 1
        whole = TimerLogUnit(LOG_UNIT_SIZE, self.last, magic, 0, 0, self.number, 100, 0)
        self.last = self.log.append(whole)
        return self.number

    @property
    def chain(self) -> Chain:
        return Chain(0, self.last, self.number)

    def reader(self) -> SlotReader:
        return SlotReader(self.log, 0, self.chain, lambda unit: b"key%d" % unit.physical_offset)


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    return Slot(tmp_path)


def taken(reader: SlotReader) -> list[int]:
    numbers = []
    while (unit := reader.next()) is not None:
        numbers.append(unit.physical_offset)
        reader.done()
    return numbers


def test_units_are_read_oldest_first(slot: Slot) -> None:
    numbers = [slot.add() for _ in range(20)]
    reader = slot.reader()
    assert reader.read(100)
    assert taken(reader) == numbers


def test_chain_is_read_in_steps(slot: Slot) -> None:
    for _ in range(20):
        slot.add()
    reader = slot.reader()
    assert [reader.read(7) for _ in range(3)] == [False, False, True]
    assert len(taken(reader)) == 20


def test_recalls_are_known_before_the_first_message(slot: Slot) -> None:
    slot.add()
    recall = slot.add(MAGIC_DEFAULT | MAGIC_DELETE)
    reader = slot.reader()
    reader.read(100)
    assert taken(reader) == [1]
    assert reader.recalls(b"key%d" % recall)
    assert not reader.recalls(b"key1")
    assert reader.recall_count == 1


def test_rolled_recall_is_passed_on_like_a_message(slot: Slot) -> None:
    slot.add(MAGIC_DEFAULT | MAGIC_DELETE | MAGIC_ROLL)
    reader = slot.reader()
    reader.read(100)
    assert taken(reader) == [1]
    assert reader.recall_count == 0


def test_units_that_joined_meanwhile_are_read_in_a_further_pass(slot: Slot) -> None:
    slot.add()
    reader = slot.reader()
    reader.read(100)
    assert taken(reader) == [1]
    slot.add()
    slot.add(MAGIC_DEFAULT | MAGIC_DELETE)
    slot.add()
    assert reader.extend(slot.chain)
    assert reader.read(100)
    assert taken(reader) == [2, 4]
    assert not reader.extend(slot.chain)
    assert not reader.extend(None)


def test_rest_is_the_unfinished_units_and_the_recalls(slot: Slot) -> None:
    slot.add(MAGIC_DEFAULT | MAGIC_DELETE)
    for _ in range(4):
        slot.add()
    reader = slot.reader()
    reader.read(100)
    assert reader.next() is not None
    reader.done()
    units = [slot.log.read(position) for position in reader.rest()]
    assert [unit.physical_offset for unit in units if unit is not None] == [1, 3, 4, 5]


def test_missing_unit_ends_the_chain(slot: Slot) -> None:
    for _ in range(4):
        slot.add()
    file = slot.log.files.files[0]
    file.mapping[52:56] = b"\0\0\0\0"
    reader = slot.reader()
    assert reader.read(100)
    assert taken(reader) == [3, 4]
