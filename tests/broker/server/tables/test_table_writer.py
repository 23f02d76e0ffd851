"""Writes of a table: shared by many changes, in another thread, taken back when they fail."""

import asyncio

import pytest

from broker.errors import DiskFullError
from broker.server.tables.table_writer import TableWriter

FULL = DiskFullError("/store/config/topics.json: No space left on device")


class Table:
    """A table of numbers whose file is a dict; the test decides when writes end."""

    def __init__(self) -> None:
        self.entries: dict[str, int] = {}
        self.file: dict[str, int] = {}
        self.turn = []
        self.running = []
        self.failures = []
        self.writer = TableWriter(
            self.take, self.restore, self.failures.append, soon=self.turn.append, run=self.run
        )

    def take(self):
        copy = dict(self.entries)

        def job() -> None:
            self.file = copy

        return job

    def run(self, job, done) -> None:
        self.running.append((job, done))

    def restore(self, before) -> None:
        for name, value in before.items():
            if value is None:
                self.entries.pop(name, None)
            else:
                self.entries[name] = value

    def put(self, name: str, value: int) -> None:
        before = {name: self.entries.get(name)}
        self.entries[name] = value
        self.writer.changed(before)

    def end_turn(self) -> None:
        calls, self.turn[:] = list(self.turn), []
        for call in calls:
            call()

    def end_write(self, error: Exception | None = None) -> None:
        job, done = self.running.pop(0)
        if error is None:
            job()
        done(error)


@pytest.fixture
def table() -> Table:
    return Table()


def outcome(table: Table) -> list:
    """The answers to a caller that waits from now on."""
    answers: list = []
    table.writer.when_persisted(answers.append)
    return answers


def test_changes_of_one_turn_share_one_write(table) -> None:
    for number in range(300):
        table.put(f"t{number}", number)
    table.end_turn()
    assert len(table.running) == 1
    table.end_write()
    assert table.file == table.entries
    assert not table.writer.dirty
    assert table.turn == []


def test_changes_during_a_write_share_the_next_one(table) -> None:
    table.put("a", 1)
    table.end_turn()
    first = outcome(table)
    for number in range(10):
        table.put("b", number)
        table.end_turn()
    second = outcome(table)
    table.end_write()
    assert (first, second) == ([None], [])
    assert table.file == {"a": 1}
    assert table.writer.is_persisted("a")
    assert not table.writer.is_persisted("b")
    table.end_turn()
    table.end_write()
    assert second == [None]
    assert table.file == {"a": 1, "b": 9}
    assert table.writer.is_persisted("b")


def test_who_waits_for_nothing_is_answered_at_once(table) -> None:
    assert outcome(table) == [None]
    assert table.turn == []


def test_a_failed_write_is_taken_back_and_a_retry_writes_again(table) -> None:
    table.put("a", 1)
    table.end_turn()
    table.end_write()
    table.put("a", 2)
    table.put("b", 3)
    answers = outcome(table)
    table.end_turn()
    table.end_write(FULL)
    assert answers == [FULL]
    assert table.failures == [FULL]
    assert table.entries == table.file == {"a": 1}
    table.put("b", 3)
    answers = outcome(table)
    table.end_turn()
    table.end_write()
    assert answers == [None]
    assert table.file == {"a": 1, "b": 3}


def test_a_change_during_a_failed_write_is_kept_and_written(table) -> None:
    table.put("a", 1)
    table.end_turn()
    table.put("a", 2)
    answers = outcome(table)
    table.end_write(FULL)
    assert table.entries == {"a": 2}
    assert not table.writer.is_persisted("a")
    table.end_turn()
    table.end_write(FULL)
    assert answers == [FULL]
    # Back to the content of the file: the value of the first write never reached it.
    assert table.entries == {}


def test_entries_without_a_former_value_stay_and_are_written_later(table) -> None:
    table.entries["a"] = 1
    table.writer.changed({})
    table.end_turn()
    table.end_write(FULL)
    assert table.entries == {"a": 1}
    assert table.writer.dirty
    assert table.turn == []  # not before it is asked for
    table.writer.retry()
    table.end_turn()
    table.end_write()
    assert table.file == {"a": 1}


def test_persist_waits_for_the_write_and_raises_its_error(table, run) -> None:
    async def scenario() -> None:
        await table.writer.persist()
        table.put("a", 1)
        waiting = asyncio.ensure_future(table.writer.persist())
        await asyncio.sleep(0)
        table.end_turn()
        assert not waiting.done()
        table.end_write()
        await waiting
        table.put("a", 2)
        waiting = asyncio.ensure_future(table.writer.persist())
        cancelled = asyncio.ensure_future(table.writer.persist())
        await asyncio.sleep(0)
        cancelled.cancel()
        table.end_turn()
        table.end_write(FULL)
        with pytest.raises(DiskFullError):
            await waiting

    run(scenario())
