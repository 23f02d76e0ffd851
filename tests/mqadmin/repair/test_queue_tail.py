"""Last units of queues: their positions, and exact cuts in a copy."""

from pathlib import Path

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.queues import unit_rows
from mqadmin.inspector.rows import QueueUnitRow
from mqadmin.repair.files import Output
from mqadmin.repair.queue_tail import cut_units, dispatched_end, last_unit
from tests.support.made_store import MadeStore


def written(root: Path, count: int = 100) -> MadeStore:
    made = MadeStore(root)
    for number in range(count):
        made.put("TopicA" if number % 3 else "TopicB", number % 2)
    made.write_all()
    return made


def offsets(root: Path) -> list[int]:
    rows = unit_rows(StoreDirectory(root))
    return sorted(row.physical_offset for row in rows if isinstance(row, QueueUnitRow))


def test_the_last_unit_is_found_before_the_empty_ones(tmp_path: Path) -> None:
    made = written(tmp_path / "store")
    for queue in StoreDirectory(made.root).queue_files():
        place, size = made.record_of(
            queue.topic, queue.queue_id, len(made.queues[queue.topic, queue.queue_id]) - 1
        )
        tail = last_unit(queue.files[-1][0], queue.kind)
        assert tail is not None
        assert (tail.physical_offset, tail.size) == (place, size)
    empty = tmp_path / "empty"
    empty.write_bytes(bytes(600))
    assert last_unit(empty, "classic") is None


def test_the_dispatched_end_is_that_of_the_newest_unit_with_a_record(tmp_path: Path) -> None:
    made = written(tmp_path / "store", 50)
    assert dispatched_end(StoreDirectory(made.root)) == made.end
    topic, queue_id = ("TopicA" if 49 % 3 else "TopicB"), 49 % 2
    last = len(made.queues[topic, queue_id]) - 1
    made.poke_unit(topic, queue_id, last, made.end.to_bytes(8, "big"))
    place, size = made.places[48]
    assert dispatched_end(StoreDirectory(made.root)) == place + size


def test_a_cut_removes_exactly_the_units_from_the_end_on(tmp_path: Path) -> None:
    made = written(tmp_path / "store")
    for number, (end, _) in enumerate(made.places):
        if number % 17:
            continue
        out = Output(tmp_path / f"out{number}")
        source = StoreDirectory(made.root)
        for queue in source.queue_files():
            for path, _ in queue.files:
                out.take(path, str(path.relative_to(made.root)), sealed=True)
            cut_units(out, made.root, queue, end)
        out.sync()
        assert offsets(out.root) == [place for place, _ in made.places if place < end]
    assert offsets(made.root) == [place for place, _ in made.places]
