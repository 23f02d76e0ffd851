"""Batch queues: several messages per unit, found by halving."""

import os
from pathlib import Path

import pytest

from broker.common import sysflag
from broker.store.consumequeue.batch_consume_queue import BatchConsumeQueue
from broker.store.consumequeue.consume_queue import Topic
from broker.store.logfile.disk import Disk
from broker.store.logfile.mapped_file import MappedFileQueue
from broker.store.results import PutMessageStatus

SIZE = 5 * 46


@pytest.fixture
def make(tmp_path):
    made = []

    def new():
        files = MappedFileQueue(Disk(), str(tmp_path / "q"), SIZE)
        queue = BatchConsumeQueue(Topic("T"), 0, files, lambda queue: None)
        queue.load()
        made.append(queue)
        return queue

    yield new
    for queue in made:
        queue.close()


def fill(queue, units):
    """Batches of three messages, 100 bytes each."""
    for number in range(units):
        assert queue.append_batch(number * 3, 1000 + number * 100, 100, number, (5000, 3))


def test_offsets_count_messages_and_units_are_found(make, tmp_path):
    queue = make()
    fill(queue, 12)
    assert (queue.min_offset, queue.max_offset) == (0, 36)
    assert sorted(os.listdir(tmp_path / "q")) == [f"{n * SIZE:020d}" for n in range(3)]
    for offset in range(36):
        assert queue.unit(offset) == (1000 + offset // 3 * 100, 100, offset // 3)
    assert queue.unit(36) is None
    assert [unit[4:6] for unit in queue.read_batches(4, 2)] == [(3, 3), (6, 3)]
    assert [unit[2] for unit in queue.read(13, 100)] == list(range(4, 12))
    assert queue.next_file_offset(0) == 15


def test_single_messages_count_one(make):
    queue = make()
    assert queue.append(0, 1000, 50, 7)
    assert queue.append_batch(1, 1050, 50, 8, (5000, 4))
    assert queue.max_offset == 5
    assert queue.append(1, 1050, 50, 8) is False


def test_the_end_is_found_again(make):
    for units in (0, 1, 4, 5, 6, 12):
        queue = make()
        queue.destroy()
        fill(queue, units)
        queue.close()
        again = make()
        assert again.max_offset == units * 3
        again.scan_end()
        assert again.max_offset == units * 3
        assert again.append(units * 3, 90_000, 10, 1)


def test_a_renamed_first_file_is_removed_for_recovery_to_write_the_queue_again(make, tmp_path):
    fill(make(), 4)
    path = tmp_path / "q" / f"{0:020d}"
    path.rename(path.with_name(f"{1:020d}"))
    queue = make()
    assert (queue.min_offset, queue.max_offset) == (0, 0)
    fill(queue, 4)
    assert [unit[4] for unit in queue.read_batches(0, 9)] == [0, 3, 6, 9]


def test_cuts(make):
    queue = make()
    fill(queue, 12)
    assert queue.truncate_to_log(1 << 40) is False
    assert queue.truncate_to_log(1850) is True
    assert (queue.max_offset, queue.max_physical_offset) == (24, 1800)
    queue.truncate_units(10)
    assert queue.max_offset == 9
    queue.truncate_units(99)
    assert queue.max_offset == 9


def test_min_offset_and_expiry(make):
    queue = make()
    fill(queue, 12)
    queue.correct_min_offset(1401)
    assert queue.min_offset == 15
    assert queue.delete_expired(1401) == 1
    assert queue.first_offset == 15
    assert queue.unit(15) == (1500, 100, 5)
    queue.correct_min_offset(1 << 40)
    assert queue.min_offset == queue.max_offset


@pytest.mark.parametrize("log_min", [0, 1401])
@pytest.mark.parametrize("damaged", [-5, 0, 1, 1 << 60])
def test_a_damaged_unit_hides_no_message_and_costs_no_file(make, log_min, damaged):
    queue = make()
    fill(queue, 12)
    queue.correct_min_offset(log_min)
    expected = queue.min_offset
    queue.destroy()
    for number in range(12):
        queue = make()
        fill(queue, 12)
        mapping = queue.files.find(number * 46).mapping
        mapping[number % 5 * 46 : number % 5 * 46 + 8] = damaged.to_bytes(8, "big", signed=True)
        queue.delete_expired(log_min)
        assert queue.min_offset <= expected
        assert queue.first_offset <= expected
        queue.destroy()


def test_units_after_a_corrupt_base_are_added_again_in_their_files(make):
    queue = make()
    fill(queue, 12)
    queue.close()
    path = queue.files.find(0).path
    data = bytearray(Path(path).read_bytes())
    data[2 * 46 + 28] ^= 0x80  # the base of the third unit, in the first of three files
    Path(path).write_bytes(data)
    again = make()
    assert again.max_offset == 6
    for number in range(2, 12):
        assert again.append_batch(number * 3, 1000 + number * 100, 100, number, (5000, 3))
    assert [again.unit(number * 3) for number in range(12)] == [
        (1000 + number * 100, 100, number) for number in range(12)
    ]


def test_sync(make):
    queue = make()
    fill(queue, 12)
    assert queue.dirty
    queue.sync()
    assert queue.dirty_pages() == 0
    assert not queue.dirty


def test_a_model_of_appends_cuts_expiry_and_restarts(make, rng) -> None:
    """After every operation the queue equals a list of (base, physical offset, size, count)."""
    queue = make()
    model: list[tuple[int, int, int, int]] = []
    end, physical, removed = 0, 1000, 0
    for _ in range(300):
        operation = rng.choices(
            ["append", "known", "cut log", "cut queue", "expire", "restart", "sync"],
            weights=[12, 2, 2, 2, 2, 2, 1],
        )[0]
        if operation == "append":
            base, count, size = end + rng.randrange(2), rng.randint(1, 4), rng.randint(50, 90)
            assert queue.append_batch(base, physical, size, 7, (5000, count))
            model.append((base, physical, size, count))
            end, physical = base + count, physical + size
        elif operation == "known" and model:
            base, place, size, count = rng.choice(model)
            assert not queue.append_batch(base, place, size, 7, (5000, count))
        elif operation == "cut log" and len(model) > 2:
            place = rng.choice(model[len(model) // 2 :])[1]
            kept = [unit for unit in model if unit[1] + unit[2] <= place]
            assert queue.truncate_to_log(place) is (kept != model)
            model = kept
        elif operation == "cut queue" and len(model) > 2:
            base, _, _, count = rng.choice(model[len(model) // 2 :])
            queue.truncate_units(base + rng.randrange(count))
            model = [unit for unit in model if unit[0] < base]
        elif operation == "expire" and model:
            log_min = rng.choice(model)[1]
            queue.correct_min_offset(log_min)
            assert queue.min_offset == next(unit[0] for unit in model if unit[1] >= log_min)
            gone = queue.delete_expired(log_min) * (SIZE // 46)
            model, removed = model[gone:], removed + gone
            assert not model or model[0][1] >= 1000
        elif operation == "restart":
            queue.close()
            queue = make()
            if rng.random() < 0.5:
                queue.scan_end()
        elif operation == "sync":
            queue.sync()
        end = model[-1][0] + model[-1][3] if model else 0
        physical = model[-1][1] + model[-1][2] if model else physical
        assert queue.max_offset == end
        assert queue.max_physical_offset == (physical if model else -1)
        for base, place, size, count in model:
            assert queue.unit(base) == queue.unit(base + count - 1) == (place, size, 7)
            assert queue.unit_base(base + count - 1) == base
        assert [unit[0] for unit in queue.read(queue.first_offset, 1 << 20)] == [
            unit[1] for unit in model
        ]


def test_offsets_before_the_first_unit_and_after_the_last_have_none(make) -> None:
    queue = make()
    fill(queue, 12)
    assert queue.delete_expired(1500) == 1
    assert queue.unit(14) is None
    assert queue.unit(15) == (1500, 100, 5)
    assert queue.unit(-1) is None
    assert queue.unit(36) is None


def test_units_flushed_before_a_cut_are_flushed_again(make) -> None:
    """The bytes that replace them are new."""
    queue = make()
    fill(queue, 12)
    queue.sync()
    queue.mark_flushed()
    queue.truncate_units(6)
    assert queue.append_batch(6, 90_000, 100, 1, (5000, 3))
    assert queue.exposed(log_min=1 << 40)
    assert queue.dirty_pages() >= 0


def test_a_topic_created_again_after_an_interrupted_deletion_has_contiguous_files(stores, inner):
    """A put reserves no space in a batch queue: it cannot know the position of its unit."""
    config = stores.config(mapper_file_size_batch_consume_queue=40 * 46)
    folder = stores.root / "batchconsumequeue" / "Bulk" / "0"
    store = stores.start(config)
    put_batches(store, inner, 3)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    store.delete_topics(["Bulk"])
    put_batches(store, inner, 2)
    stores.close(store)
    for name, data in before.items():
        (folder / name).write_bytes(data)
    (stores.root / "abort").write_bytes(b"")
    store = stores.start(config)
    put_batches(store, inner, 198)
    names = sorted(os.listdir(folder))
    assert names == [f"{n * 40 * 46:020d}" for n in range(5)]
    assert (store.get_min_offset("Bulk", 0), store.get_max_offset("Bulk", 0)) == (0, 1800)
    offset = 0
    while offset < 1800:
        found = store.get_message("Bulk", 0, offset)
        assert found.message_count > 0
        offset = found.next_begin_offset


def put_batches(store, inner, count):
    store.queue_table.set_batch_topics(["Bulk"])
    for _ in range(count):
        properties = {"INNER_NUM": "9"}
        flags = sysflag.INNER_BATCH | sysflag.NEED_UNWRAP
        result = store.put_message(inner("Bulk", 0, sys_flag=flags, properties=properties))
        assert result.status is PutMessageStatus.PUT_OK
