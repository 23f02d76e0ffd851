"""Last units of queues: their positions, and exact cuts in a copy."""

import shutil
from pathlib import Path

import pytest

from broker.store.format.consumequeue import NO_UNIT, PRE_BLANK, BatchConsumeQueueUnit
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.queues import unit_rows
from mqadmin.inspector.rows import QueueUnitRow
from mqadmin.repair.files import Output
from mqadmin.repair.queue_tail import Tail, cut_units, dispatched_end, last_unit, unit_size
from tests.support.made_store import MadeStore
from tests.support.store_units import encode_batch_unit, encode_unit


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


@pytest.mark.parametrize("count", [1, 2, 3277, 6554])
def test_the_last_unit_of_a_large_file_is_found_from_its_end(tmp_path: Path, count: int) -> None:
    """Units whose last bytes are zeros, at every distance from the ends of the pieces read."""
    path = tmp_path / "00000000000000000000"
    units = b"".join(encode_unit(1000 + number * 100, 100) for number in range(count))
    path.write_bytes(units.ljust(200_000, b"\0"))
    assert last_unit(path, "classic") == Tail(count * 20 - 20, 900 + count * 100, 100)


def test_a_pre_blank_unit_is_a_unit_without_a_record(tmp_path: Path) -> None:
    """A queue above offset 0 starts with them; they are written, but lead to no message."""
    path = tmp_path / "00000000000000000000"
    path.write_bytes((PRE_BLANK * 3).ljust(600, b"\0"))
    assert last_unit(path, "classic") == Tail(40, -1, 0)


def test_a_unit_that_the_end_of_the_file_cuts_is_none(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000"
    path.write_bytes(encode_unit(1000, 100, 7) + encode_unit(1100, 100, 7)[:15])
    assert last_unit(path, "classic") is None


def test_units_of_a_batch_queue_have_their_own_length(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000"
    units = [
        BatchConsumeQueueUnit(1000 + number * 300, 300, 0, 1, number * 3, 3) for number in range(5)
    ]
    path.write_bytes(b"".join(map(encode_batch_unit, units)).ljust(4600, b"\0"))
    assert (unit_size("batch"), unit_size("classic"), unit_size("light")) == (46, 20, 20)
    assert last_unit(path, "batch") == Tail(4 * 46, 2200, 300)


def test_a_store_without_units_has_no_dispatched_end(tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "store")
    made.put()
    made.write()
    assert dispatched_end(StoreDirectory(made.root)) == made.end
    shutil.rmtree(made.root / "consumequeue")
    assert dispatched_end(StoreDirectory(made.root)) == -1


def test_a_unit_with_another_size_than_its_record_does_not_count(tmp_path: Path) -> None:
    made = written(tmp_path / "store", 10)
    topic, queue_id = ("TopicA" if 9 % 3 else "TopicB"), 9 % 2
    last = len(made.queues[topic, queue_id]) - 1
    place, size = made.places[9]
    made.poke_unit(topic, queue_id, last, encode_unit(place, size + 1))
    assert dispatched_end(StoreDirectory(made.root)) == place


def test_an_empty_last_file_leaves_the_tail_in_the_one_before(tmp_path: Path) -> None:
    made = written(tmp_path / "store", 10)
    for folder in (made.root / "consumequeue").glob("*/*"):
        (folder / "00000000000000000600").write_bytes(bytes(600))
    assert dispatched_end(StoreDirectory(made.root)) == made.end


def test_a_queue_folder_without_files_is_skipped(tmp_path: Path) -> None:
    made = written(tmp_path / "store", 10)
    (made.root / "consumequeue" / "Empty" / "0").mkdir(parents=True)
    assert dispatched_end(StoreDirectory(made.root)) == made.end


def test_a_cut_past_the_last_unit_changes_nothing(tmp_path: Path) -> None:
    made = written(tmp_path / "store", 10)
    out = Output(tmp_path / "out")
    for queue in StoreDirectory(made.root).queue_files():
        for path, _ in queue.files:
            out.take(path, str(path.relative_to(made.root)), sealed=True)
        cut_units(out, made.root, queue, made.end)
    out.sync()
    assert offsets(out.root) == offsets(made.root)


def test_files_that_are_not_in_the_copy_are_left_out_of_a_cut(tmp_path: Path) -> None:
    made = written(tmp_path / "store", 10)
    out = Output(tmp_path / "out")
    for queue in StoreDirectory(made.root).queue_files():
        cut_units(out, made.root, queue, 0)
    out.sync()
    assert not (out.root / "consumequeue").exists()


def test_a_file_without_units_is_passed_over_by_a_cut(tmp_path: Path) -> None:
    made = written(tmp_path / "store", 100)
    for folder in (made.root / "consumequeue").glob("*/*"):
        files = sorted(folder.iterdir())
        (folder / f"{int(files[-1].name) + 600:020d}").write_bytes(bytes(600))
    end = made.places[40][0]
    out = Output(tmp_path / "out")
    for queue in StoreDirectory(made.root).queue_files():
        for path, _ in queue.files:
            out.take(path, str(path.relative_to(made.root)), sealed=True)
        cut_units(out, made.root, queue, end)
    out.sync()
    assert offsets(out.root) == [place for place, _ in made.places if place < end]


def test_units_of_a_batch_queue_are_cut_too(tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "store")
    made.put()
    made.write()
    folder = made.root / "batchconsumequeue" / "B" / "0"
    folder.mkdir(parents=True)
    units = [BatchConsumeQueueUnit(n * 300, 300, 0, 1, n * 3, 3) for n in range(5)]
    (folder / "00000000000000000000").write_bytes(
        b"".join(map(encode_batch_unit, units)).ljust(460, b"\0")
    )
    out = Output(tmp_path / "out")
    (queue,) = [one for one in StoreDirectory(made.root).queue_files() if one.kind == "batch"]
    for path, _ in queue.files:
        out.take(path, str(path.relative_to(made.root)), sealed=True)
    cut_units(out, made.root, queue, 700)
    out.sync()
    name = "batchconsumequeue/B/0/00000000000000000000"
    assert last_unit(out.root / name, "batch") == Tail(2 * 46, 600, 300)


def test_a_file_that_a_put_has_just_created_has_no_unit(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000"
    path.write_bytes(NO_UNIT + bytes(80))
    assert last_unit(path, "classic") is None
