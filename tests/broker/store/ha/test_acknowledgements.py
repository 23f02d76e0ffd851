"""Acknowledgements against a list of slaves and puts that is searched each time."""

import random
from functools import partial

import pytest

from broker.store.ha.acknowledgements import Acknowledgements
from broker.store.ha.slave_table import SlaveReport
from broker.store.results import PutMessageStatus

OK = PutMessageStatus.PUT_OK
LATE = PutMessageStatus.FLUSH_SLAVE_TIMEOUT


class Slaves(Acknowledgements):
    """Each connection is a slave of another host."""

    def __init__(self) -> None:
        super().__init__()
        self.open: set[str] = set()

    def acknowledge(self, slave: str, offset: int) -> None:
        """Report an offset, with a connection if there is none."""
        if slave not in self.open:
            self.connected(slave, slave, dict.fromkeys(self.open, -1))
            self.open.add(slave)
        self.report(slave, SlaveReport(offset))

    def disconnect(self, slave: str) -> None:
        """Close the connection."""
        self.open.discard(slave)
        self.disconnected(slave)


def test_a_put_completes_with_the_report_that_reaches_its_end() -> None:
    acks, answers = Slaves(), []
    acks.acknowledge("a", 100)
    assert acks.wait(150, 2, 9.0, answers.append)
    acks.acknowledge("a", 149)
    assert answers == []
    acks.acknowledge("a", 150)
    assert answers == [OK]


def test_one_copy_means_the_master_alone() -> None:
    acks, answers = Slaves(), []
    assert not acks.wait(150, 1, 9.0, answers.append)
    assert answers == [OK]


def test_without_a_slave_a_put_waits_until_its_deadline() -> None:
    acks, answers = Slaves(), []
    acks.wait(150, 2, 3.0, answers.append)
    acks.expire(2.9)
    assert answers == []
    assert acks.next_deadline() == 3.0
    acks.expire(3.0)
    assert answers == [LATE]
    assert acks.waiting == 0


def test_a_slave_that_disconnects_no_longer_counts() -> None:
    acks, answers = Slaves(), []
    acks.acknowledge("a", 500)
    acks.disconnect("a")
    assert acks.wait(400, 2, 3.0, answers.append)
    assert answers == []


def test_in_sync_counts_the_master_and_the_slaves_within_the_gap() -> None:
    acks = Slaves()
    acks.acknowledge("a", 1_000)
    acks.acknowledge("b", 100)
    assert acks.in_sync(1_000, 901) == 3
    assert acks.in_sync(1_000, 900) == 2
    assert acks.in_sync(1_001, 1) == 1


def test_random_reports_answer_like_a_search_of_all_puts(rng: random.Random) -> None:
    for _ in range(200):
        compare_random_events(rng)


def compare_random_events(rng: random.Random) -> None:
    acks = Slaves()
    slaves: dict[str, int] = {}
    waiting: dict[int, tuple[int, int, float]] = {}
    answered: dict[int, PutMessageStatus] = {}
    expected: dict[int, PutMessageStatus] = {}
    end = 0

    def complete() -> None:
        for number, (last, needed, _) in list(waiting.items()):
            if sum(offset >= last for offset in slaves.values()) >= needed - 1:
                del waiting[number]
                expected[number] = OK

    for number in range(rng.randrange(1, 80)):
        choice = rng.random()
        slave = rng.choice("abc")
        if choice < 0.5:
            end += rng.randrange(1, 50)
            waiting[number] = (end, rng.choice([1, 2, 2, 3]), rng.random() * 10)
            acks.wait(
                *waiting[number],
                partial(answered.setdefault, number),
            )
            last, needed, _ = waiting[number]
            if sum(offset >= last for offset in slaves.values()) >= needed - 1:
                del waiting[number]
                expected[number] = OK
        elif choice < 0.9:
            slaves[slave] = rng.randrange(end + 10)
            acks.acknowledge(slave, slaves[slave])
            complete()
        elif choice < 0.95:
            slaves.pop(slave, None)
            acks.disconnect(slave)
        else:
            now = rng.random() * 10
            acks.expire(now)
            for late in [key for key, entry in waiting.items() if entry[2] <= now]:
                del waiting[late]
                expected[late] = LATE
        assert answered == expected
        assert acks.waiting == len(waiting)


@pytest.mark.parametrize("registered", ["before", "after"])
def test_a_slave_that_starts_after_a_record_does_not_count_as_a_copy(registered: str) -> None:
    table, answers = Slaves(), []
    if registered == "before":
        table.wait(100, 2, 5, answers.append)
    table.skip(100)
    table.acknowledge("empty", 150)
    if registered == "after":
        assert not table.is_copied(100, 2)
        table.wait(100, 2, 5, answers.append)
    assert answers == []
    table.wait(150, 2, 5, answers.append)
    assert answers == [PutMessageStatus.PUT_OK]
    table.acknowledge("other", 100)
    assert answers == [PutMessageStatus.PUT_OK] * 2


def test_records_that_wait_together_are_copied_by_a_slave_that_has_the_first() -> None:
    table, answers = Slaves(), []
    table.wait(150, 2, 5, answers.append, first_end=100)
    table.skip(100)
    table.acknowledge("empty", 150)
    assert answers == []
    assert not table.is_copied(150, 2, 100)
    assert table.is_copied(150, 2, 101)
