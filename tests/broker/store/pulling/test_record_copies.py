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
        store.reader.copies = RecordCopies()
        found = store.get_ordinary(*place)
        assert (sliced is None) == (found is None)
        if sliced is not None and found is not None:
            assert found[:2] == sliced[:2]
            assert found[3:] == sliced[3:]
            assert [b"".join(sliced[2])] == found[2]
            copied += 1
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
    store.reader.copies = RecordCopies()
    assert store.get_ordinary("TopicA", 0, 0, 32) is None
    assert store.get_message("TopicA", 0, 0, 32).message_count == 1


def test_a_removed_file_is_not_kept_mapped(stores, inner) -> None:
    store = stores.start()
    for number in range(12):
        store.put_message(inner(body=b"%04d" % number * 200))
    store.flush()
    store.reader.copies = RecordCopies()
    assert store.get_ordinary("TopicA", 0, 0, 2) is not None
    file = store.log.files.files[0]
    view = file.view
    store.log.files.remove_first()
    with pytest.raises(ValueError, match="released"):
        len(view)
