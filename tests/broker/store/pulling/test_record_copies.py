"""RecordCopies: the compiled loop over the files of a store, in place of slices."""

import pytest

pytest.importorskip("numba", reason="the compiled loops need the extra 'fast'")

from broker.store.pulling.record_copies import OUT_BYTES, RecordCopies


def test_pulls_are_the_same_with_copies(stores, inner, rng) -> None:
    store = stores.start(stores.config(mapped_file_size_commit_log=1 << 16))
    for number in range(60):
        body = b"%04d" % number * rng.randrange(1, 200)
        store.put_message(inner(body=body, topic=rng.choice("AB")))
    copied = 0
    for _ in range(300):
        place = rng.choice("AB"), 0, rng.randrange(45), rng.randrange(1, 20)
        store.reader.copies = None
        sliced = store.get_ordinary(*place)
        store.reader.copies = RecordCopies(store.reader)
        found = store.get_ordinary(*place)
        assert (sliced is None) == (found is None)
        if sliced is not None and found is not None:
            assert found[:2] == sliced[:2]
            assert found[3] is sliced[3]
            assert b"".join(sliced[2]) == b"".join(found[2])
            copied += len(found[2]) == 1 < len(sliced[2])
    assert copied > 20


def test_a_record_longer_than_the_buffer_is_left(stores, inner) -> None:
    config = stores.config(
        mapped_file_size_commit_log=1 << 20,
        max_message_size=1 << 19,
        max_transfer_bytes_on_message_in_memory=1 << 20,
    )
    store = stores.start(config)
    store.put_message(inner(body=bytes(OUT_BYTES)))
    assert len(store.get_ordinary("TopicA", 0, 0, 32)[2]) == 1
    queue = store.queue_table.find("TopicA", 0)
    store.reader.copies = RecordCopies(store.reader)
    assert store.reader.copies.read(queue, 0, 32) is None
    assert len(store.get_ordinary("TopicA", 0, 0, 32)[2]) == 1
    assert store.get_message("TopicA", 0, 0, 32).message_count == 1


def test_a_removed_file_is_not_kept_mapped(stores, inner) -> None:
    store = stores.start()
    for number in range(12):
        store.put_message(inner(body=b"%04d" % number * 200))
    store.flush()
    store.reader.copies = RecordCopies(store.reader)
    assert store.get_ordinary("TopicA", 0, 0, 2) is not None
    file = store.log.files.files[0]
    view = file.view
    store.log.files.remove_first()
    with pytest.raises(ValueError, match="released"):
        len(view)


@pytest.fixture
def copies(stores, inner):
    """The copies of a store with 40 messages in several files of the log."""
    store = stores.start(stores.config(mapped_file_size_commit_log=1 << 14))
    for number in range(40):
        store.put_message(inner(body=b"%04d" % number * 200))
    assert len(store.log.files.files) > 2
    store.reader.copies = RecordCopies(store.reader)
    return store


def read(store, start: int, most: int) -> bytes | None:
    """The records that the compiled loop finds, None if it leaves them."""
    queue = store.queue_table.find("TopicA", 0)
    found = store.reader.copies.read(queue, start, most)
    return None if found is None else b"".join(found[2])


def records(store, start: int, most: int) -> bytes:
    """The records that a pull finds."""
    return b"".join(store.get_message("TopicA", 0, start, most).buffers)


def test_records_of_two_files_are_left(copies) -> None:
    first_file = copies.log.files.files[0]
    count = next(
        number
        for number in range(1, 40)
        if copies.get_message("TopicA", 0, 0, number).total_bytes > first_file.written - 100
    )
    assert read(copies, count - 2, 3) is None
    assert read(copies, count + 1, 3) == records(copies, count + 1, 3)
    assert read(copies, 0, 3) == records(copies, 0, 3)


def test_files_unmapped_meanwhile_are_mapped_again(copies) -> None:
    expected = records(copies, 0, 5)
    assert read(copies, 0, 5) == expected
    queue = copies.queue_table.find("TopicA", 0)
    for file in (*queue.files.files, *copies.log.files.files):
        file.release_mapping()
        assert file.octets is None
    assert read(copies, 0, 5) == expected


def test_records_after_the_end_of_a_file_are_left(copies) -> None:
    """As while a role change shortens the log."""
    assert read(copies, 0, 3) is not None
    copies.log.files.files[0].written = len(records(copies, 0, 3)) - 1
    assert read(copies, 0, 3) is None
    assert read(copies, 0, 2) == records(copies, 0, 2)


def test_nothing_is_read_before_the_queue_and_after_its_end(copies) -> None:
    assert [read(copies, start, 3) for start in (-1, 40, 41, 1 << 62)] == [None] * 4
    assert read(copies, 39, 3) == records(copies, 39, 3)
    assert [read(copies, 0, most) for most in (0, -1)] == [None] * 2


def test_records_far_from_the_end_are_left(copies) -> None:
    copies.reader.memory_bytes = 20_000
    assert read(copies, 0, 3) is None
    assert read(copies, 39, 1) == records(copies, 39, 1)


def test_records_to_compare_are_left_until_a_pull_has_compared_them(copies) -> None:
    copies.reader.unchecked_before = copies.log.max_offset
    assert read(copies, 4, 3) is None
    expected = records(copies, 4, 3)
    assert read(copies, 4, 3) == expected
