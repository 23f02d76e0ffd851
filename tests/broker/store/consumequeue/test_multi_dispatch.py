"""Light queues: names are checked at the put, and one bad record never stops the others."""

import pytest

from broker.errors import StoreError
from broker.message.record import decode_record
from broker.store.consumequeue.multi_dispatch import MAX_QUEUES
from broker.store.message_store import PutMessageStatus as P

NAMES, OFFSETS = "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"


@pytest.fixture
def config(stores):
    return stores.config(enable_multi_dispatch=True, enable_lmq=True)


def put_unchecked(store, message):
    """Store a message as an older version did: without a look at the names."""
    store.writer.multi_dispatch = False
    result = store.put_message(message)
    store.writer.multi_dispatch = True
    assert result.status is P.PUT_OK
    return result


@pytest.mark.parametrize(
    "name",
    ["%LMQ%" + "a" * 251, "x" * 256, "\u00e9" * 128, ".", "..", "a/b", "/", "%LMQ%nul\0", "a,b/c"],
)
def test_a_name_that_cannot_be_a_folder_is_refused(stores, config, inner, name):
    store = stores.start(config)
    result = store.put_message(inner(properties={NAMES: f"%LMQ%good,{name}"}))
    assert result.status is P.MESSAGE_ILLEGAL
    assert "INNER_MULTI_DISPATCH" in result.remark
    assert store.max_physical_offset == 0
    (result,) = store.put_messages([inner(), inner(properties={NAMES: name})])
    assert result.status is P.MESSAGE_ILLEGAL
    assert store.max_physical_offset == 0
    assert store.put_message(inner(properties={NAMES: "%LMQ%good"})).status is P.PUT_OK
    assert store.get_max_offset("%LMQ%good", 0) == 1


def test_the_longest_name_is_taken(stores, config, inner):
    name = "%LMQ%" + "a" * 250
    store = stores.start(config)
    assert store.put_message(inner(properties={NAMES: name})).status is P.PUT_OK
    assert store.get_max_offset(name, 0) == 1
    store = stores.reopen(store)
    assert store.get_max_offset(name, 0) == 1


def test_more_queues_than_the_limit_are_refused(stores, config, inner):
    store = stores.start(config)
    names = ",".join("q" for _ in range(MAX_QUEUES + 1))
    assert store.put_message(inner(properties={NAMES: names})).status is P.MESSAGE_ILLEGAL


def test_properties_that_outgrow_their_length_field_are_refused(stores, config, inner):
    store = stores.start(
        stores.config(enable_multi_dispatch=True, mapped_file_size_commit_log=1 << 17)
    )
    properties = {"filler": "x" * 32_720, NAMES: "q"}
    result = store.put_message(inner(properties=properties))
    assert result.status is P.MESSAGE_ILLEGAL
    assert "32767" in result.remark
    assert store.queue_table.find("q", 0).next_offset == 0


def test_a_name_that_this_file_system_refuses_stores_nothing(stores, config, inner, faulty_disk):
    store = stores.start(config, disk=faulty_disk)
    faulty_disk.fail["make_folder"] = StoreError("consumequeue/b: Input/output error")
    result = store.put_message(inner(properties={NAMES: "%LMQ%b"}))
    assert result.status is P.CREATE_MAPPED_FILE_FAILED
    del faulty_disk.fail["make_folder"]
    assert store.writable
    store.put_message(inner(properties={NAMES: "%LMQ%b"}))
    found = store.get_message("%LMQ%b", 0, 0, 1)
    record = decode_record(found.buffers[0])
    assert record.properties[OFFSETS] == "0"


def test_a_record_that_cannot_be_dispatched_does_not_stop_the_next(stores, config, inner, caplog):
    store = stores.start(config)
    bad = {NAMES: "%LMQ%a," + "x" * 300 + ",%LMQ%b", OFFSETS: "0,0,0", "KEYS": "k"}
    first = put_unchecked(store, inner(properties=bad))
    assert store.writable
    assert store.dispatch_failed == 1
    assert f"physical offset {first.physical_offset}" in caplog.text
    assert store.dispatch_behind_bytes == 0
    # Its own queue, the light queues with good names and the index have it.
    for topic in ("TopicA", "%LMQ%a", "%LMQ%b"):
        assert store.get_max_offset(topic, 0) == 1
    assert len(store.query_message("TopicA", "k", 9, 0, 1 << 62).buffers) == 1
    assert store.put_message(inner(properties={NAMES: "%LMQ%c"})).status is P.PUT_OK
    assert (store.get_max_offset("TopicA", 0), store.get_max_offset("%LMQ%c", 0)) == (2, 1)


@pytest.mark.parametrize("offsets", ["0,0", "0,9000000000000000000", "0," + "9" * 4_400])
def test_a_store_with_such_a_record_starts(stores, inner, offsets):
    config = stores.config(enable_multi_dispatch=True, mapped_file_size_commit_log=1 << 14)
    plain = stores.start(stores.config(mapped_file_size_commit_log=1 << 14))
    for number in range(4):
        plain.put_message(inner(body=b"%d" % number))
    name = "x" * 300 if offsets == "0,0" else "%LMQ%b"
    plain.put_message(inner(properties={NAMES: f"%LMQ%a,{name}", OFFSETS: offsets}))
    plain.put_message(inner(body=b"last"))
    stores.kill(plain)
    (stores.root / "abort").write_bytes(b"another kernel")
    store = stores.start(config)
    assert store.get_max_offset("TopicA", 0) == 6
    # Offsets that are not numbers are not ours to guess at: then no light queue gets the record.
    guessed = len(offsets) > 4_000
    assert store.get_max_offset("%LMQ%a", 0) == (0 if guessed else 1)
    assert any("not in all of its queues" in note for note in store.report.notes) is not guessed
    assert store.put_message(inner(properties={NAMES: "%LMQ%a"})).status is P.PUT_OK


def test_a_listener_that_fails_does_not_keep_messages_back(stores, inner, caplog):
    store = stores.start()

    def listener(*_):
        raise KeyError("gone")

    store.add_arriving_listener(listener)
    for _ in range(3):
        assert store.put_message(inner(properties={"KEYS": "k"})).status is P.PUT_OK
    assert store.get_max_offset("TopicA", 0) == 3
    assert store.dispatch_failed == 3
    assert store.writable
    assert "gone" in caplog.text


def test_offsets_of_a_put_that_fails_are_given_back(stores, config, inner, monkeypatch):
    store = stores.start(config)

    def fail(*_):
        raise StoreError("commitlog/x: Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(store.log, "append", fail)
        result = store.put_message(inner(properties={NAMES: "%LMQ%a,%LMQ%b"}))
        assert result.status is P.CREATE_MAPPED_FILE_FAILED
    store.put_message(inner(properties={NAMES: "%LMQ%b"}))
    record = decode_record(store.get_message("TopicA", 0, 0, 1).buffers[0])
    assert record.properties[OFFSETS] == "0"


def test_a_unit_is_proven_by_its_own_offset_in_the_record(stores, config, inner):
    """After a cut a stale unit may lead to a record that names the queue and is not in it there."""
    store = stores.start(config)
    properties = {NAMES: "%LMQ%a"}
    assert store.put_message(inner(properties=properties)).status is P.PUT_OK
    waiting = store.put_message(inner(topic="SCHEDULE_TOPIC_XXXX", properties=properties))
    queue = store.queue_table.find("%LMQ%a", 0)
    queue.append(1, waiting.physical_offset, waiting.store_size, 0)
    assert queue.max_offset == 2
    assert store.flush()
    stores.kill(store)
    store = stores.start(config)
    assert store.get_max_offset("%LMQ%a", 0) == 1
