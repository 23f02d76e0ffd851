"""Lost messages: extents, tallies by queue, and messages that only other files know."""

import random
from pathlib import Path

import pytest

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.loss import (
    MAX_LOST_BYTES,
    Extents,
    LossTally,
    QueueLoss,
    indexed_places,
    total,
)
from mqadmin.inspector.store_manifest import StoreManifest
from tests.support.made_store import MadeStore


def test_extents_equal_a_set_of_numbers(rng: random.Random) -> None:
    for _ in range(50):
        ranges = []
        for _ in range(rng.randrange(12)):
            begin = rng.randrange(60)
            ranges.append((begin, begin + rng.randrange(1, 9)))
        if rng.random() < 0.5:
            ranges.sort()
        extents = Extents(ranges)
        model = {number for begin, end in ranges for number in range(begin, end)}
        assert [number for number in range(-1, 80) if number in extents] == sorted(model)
        assert extents.end == max((number + 1 for number in model), default=0)


def test_a_mask_of_numbers_outside_equals_membership(rng: random.Random) -> None:
    np = pytest.importorskip("numpy")
    for ranges in ([], [(5, 9)], [(20, 30), (5, 9)]):
        numbers = np.arange(-3, 40, dtype=np.int64)
        extents = Extents(ranges)
        outside = extents.outside(numbers).tolist()
        assert outside == [int(number) not in extents for number in numbers]


def test_losses_are_summed_by_queue_with_their_bounds() -> None:
    tally = LossTally(1000)
    tally.add(("B", 0), 7, place=100)
    tally.add(("A", 1), 5, 3)
    tally.add(("A", 1), 2)
    rows = tally.rows()
    assert [
        (row.topic, row.queue_id, row.messages, row.first_queue_offset, row.last_queue_offset)
        for row in rows
    ] == [("A", 1, 4, 2, 7), ("B", 0, 1, 7, 7)]
    assert total(rows) == 5
    assert tally.places == {100}


@pytest.mark.parametrize("place", [-1, 1000 + MAX_LOST_BYTES, 0x68656C6C6F20776F])
def test_nothing_was_lost_where_no_message_can_have_been(place: int) -> None:
    tally = LossTally(1000)
    tally.add(("T", 0), 8, place=place)
    assert tally.rows() == []
    assert tally.places == set()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((None, None, 2, None, None), ["2 messages", "index"]),
        (("T", 1, 1, 5, 5), ["T/1", "queue offset 5"]),
        (("T", 1, 3, 5, 7), ["T/1", "queue offsets 5 to 7"]),
    ],
)
def test_a_loss_names_queue_and_offsets(row, words: list[str]) -> None:
    topic, queue_id, messages, first, last = row
    loss = QueueLoss(
        topic=topic,
        queue_id=queue_id,
        messages=messages,
        first_queue_offset=first,
        last_queue_offset=last,
    )
    assert all(word in loss.text for word in words)


def test_messages_past_the_recorded_ends_are_lost_if_the_log_lost_its_end() -> None:
    recorded = StoreManifest(log_end=1000, queues={("T", 0): 10, ("T", 1): 4, ("U", 0): 3})
    ends = {("T", 0): 8, ("T", 1): 4}
    tally = LossTally(1000)
    found = list(tally.add_recorded(recorded, ends, 900))
    assert found == [(("T", 0), 8, 2), (("U", 0), 0, 3)]
    assert total(tally.rows()) == 5


def test_shorter_queues_of_a_complete_log_are_not_losses() -> None:
    recorded = StoreManifest(log_end=1000, queues={("T", 0): 10})
    assert list(LossTally(1000).add_recorded(recorded, {}, 1000)) == []


def test_messages_counted_by_units_are_not_counted_again() -> None:
    tally = LossTally(1000)
    tally.add(("T", 0), 8)
    recorded = StoreManifest(log_end=1000, queues={("T", 0): 10})
    assert list(tally.add_recorded(recorded, {("T", 0): 8}, 900)) == [(("T", 0), 9, 1)]


@pytest.mark.parametrize(
    ("places", "elsewhere", "count"), [({1, 2, 3}, 0, 2), ({1, 2, 3}, 1, 1), ({1}, 0, 0)]
)
def test_only_messages_unknown_to_units_are_counted_from_the_index(
    places: set[int], elsewhere: int, count: int
) -> None:
    tally = LossTally(1000)
    tally.add(("T", 0), 8, place=1)
    assert tally.add_indexed(places, elsewhere) == count
    unknown = [row for row in tally.rows() if row.topic is None]
    assert total(unknown) == count


@pytest.mark.parametrize("kept", [0, 1, 5, 20])
def test_trailing_index_entries_past_the_end_are_places_of_lost_messages(
    tmp_path: Path, kept: int
) -> None:
    store = MadeStore(tmp_path / "store", file_size=65536)
    for _ in range(20):
        store.put()
    store.write()
    store.write_index(capacity=40)
    end = store.places[kept][0] if kept < 20 else store.end
    expected = {offset for offset, _ in store.places[kept:]}
    assert indexed_places(StoreDirectory(store.root), end) == expected


def test_a_corrupt_entry_between_good_ones_is_not_a_lost_message(tmp_path: Path) -> None:
    from broker.store.format.indexfile import entry_position
    from tests.support.made_store import poke

    store = MadeStore(tmp_path / "store", file_size=65536)
    for _ in range(20):
        store.put()
    store.write()
    (path,) = store.write_index(capacity=40)
    poke(path, entry_position(7, 32) + 4, (1 << 40).to_bytes(8, "big"))
    assert indexed_places(StoreDirectory(store.root), store.end) == set()
