"""Puts: results, written records, refused messages; full disks."""

import struct
from pathlib import Path

import msgspec
import pytest

from broker.errors import DiskFullError
from broker.message.batch import encode_batch_item
from broker.message.record import decode_record, scan_records
from broker.store import encoded_batch
from broker.store.message_store import GetMessageStatus, PutMessageStatus

S = GetMessageStatus
P = PutMessageStatus


def bodies(result):
    return [m.body for buffer in result.buffers for m in scan_records(buffer)]


def test_a_put_message_is_at_the_place_of_the_result(stores, inner):
    store = stores.start()
    result = store.put_message(inner(body=b"one", queue_id=3, properties={"TAGS": "TagA"}))
    assert result.status is P.PUT_OK
    assert (result.queue_offset, result.physical_offset, result.message_count) == (0, 0, 1)
    assert result.store_timestamp == stores.clock.now_ms()
    message = decode_record(store.get_record_at(result.physical_offset), check_crc=True)
    assert (message.topic, message.queue_id, message.body) == ("TopicA", 3, b"one")
    assert message.store_timestamp == stores.clock.now_ms()
    assert message.total_size == result.store_size == result.physical_end


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("properties", [{}, {"INNER_MULTI_DISPATCH": "%LMQ%a,Other"}])
def test_a_number_beyond_its_field_creates_no_queue_file(stores, inner, many, properties):
    store = stores.start(stores.config(enable_multi_dispatch=bool(properties)))
    message = inner(sys_flag=1 << 32, properties=properties)
    with pytest.raises(struct.error):
        store.put_messages([message]) if many else store.put_message(message)
    assert not list(stores.root.glob("**/consumequeue/*"))
    assert store.put_message(inner()).queue_offset == 0


def test_queue_offsets_count_up_per_queue(stores, inner):
    store = stores.start()
    offsets = [store.put_message(inner(queue_id=n % 2)).queue_offset for n in range(6)]
    assert offsets == [0, 0, 1, 1, 2, 2]
    assert store.queues() == {"TopicA": [0, 1]}


def test_queue_offsets_continue_after_a_restart(stores, inner):
    store = stores.start()
    for _ in range(30):
        store.put_message(inner())
    store = stores.reopen(store)
    assert store.put_message(inner()).queue_offset == 30
    assert store.report.clean


def test_prepared_and_rollback_records_take_no_queue_offset(stores, inner):
    store = stores.start()
    store.put_message(inner())
    for flag in (0x4, 0xC):
        assert store.put_message(inner(sys_flag=flag)).queue_offset == 0
    assert store.put_message(inner(sys_flag=0x8)).queue_offset == 1
    assert store.get_max_offset("TopicA", 0) == 2


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"body": bytes(3001)}, P.MESSAGE_ILLEGAL),
        ({"topic": "t" * 128}, P.MESSAGE_ILLEGAL),
        ({"topic": "%RETRY%" + "t" * 249}, P.MESSAGE_ILLEGAL),
        ({"topic": ""}, P.MESSAGE_ILLEGAL),
        ({"topic": "../up"}, P.MESSAGE_ILLEGAL),
        ({"queue_id": -1}, P.MESSAGE_ILLEGAL),
        ({"properties": b"k\x01" + bytes(32_766) + b"\x02"}, P.PROPERTIES_SIZE_EXCEEDED),
        ({"sys_flag": 0x80}, P.MESSAGE_ILLEGAL),
    ],
)
def test_a_value_out_of_range_is_refused_and_nothing_is_written(stores, inner, change, status):
    store = stores.start()
    result = store.put_message(inner(**change))
    assert result.status is status
    assert result.remark
    assert store.max_physical_offset == 0
    assert store.writer.put_failed == 1


def test_the_limits_themselves_fit(stores, inner):
    store = stores.start(stores.config(mapped_file_size_commit_log=65536))
    assert store.put_message(inner(body=bytes(3000))).status is P.PUT_OK
    assert (
        store.put_message(inner(properties=b"k\x01" + b"v" * 32_764 + b"\x02")).status is P.PUT_OK
    )
    assert store.put_message(inner(topic="t" * 127)).status is P.PUT_OK
    assert store.put_message(inner(topic="%RETRY%" + "t" * 248)).status is P.PUT_OK


def test_a_record_longer_than_a_file_is_illegal(stores, inner):
    store = stores.start(stores.config(max_message_size=10_000))
    assert store.put_message(inner(body=bytes(5000))).status is P.MESSAGE_ILLEGAL
    assert store.put_message(inner()).status is P.PUT_OK


def test_an_empty_body_has_crc_0(stores, inner):
    store = stores.start()
    result = store.put_message(inner(body=b""))
    assert decode_record(store.get_record_at(result.physical_offset)).body_crc == 0


def test_a_body_may_be_a_memoryview(stores, inner):
    store = stores.start()
    result = store.put_message(inner(body=memoryview(b"xxbodyxx")[2:6]))
    assert decode_record(store.get_record_at(result.physical_offset)).body == b"body"


def test_ipv6_hosts_set_their_flags(stores, inner):
    store = stores.start()
    message = inner()
    message.born_host = bytes(15) + b"\x01\0\0\0\x07"
    result = store.put_message(message)
    found = decode_record(store.get_record_at(result.physical_offset))
    assert found.sys_flag == 0x10
    assert found.born_host == "[::1]:7"


def test_a_batch_is_stored_in_one_file(stores, inner):
    store = stores.start()
    store.put_message(inner(body=bytes(2500)))
    results = store.put_messages([inner(body=bytes(500)) for _ in range(4)])
    assert [r.queue_offset for r in results] == [1, 2, 3, 4]
    starts = [r.physical_offset for r in results]
    assert starts[0] == 4096
    assert [r.physical_end for r in results[:-1]] == starts[1:]
    assert store.get_max_offset("TopicA", 0) == 5


def test_a_batch_is_stored_as_a_whole_or_not_at_all(stores, inner):
    store = stores.start()
    results = store.put_messages([inner(), inner(body=bytes(4000))])
    assert [r.status for r in results] == [P.MESSAGE_ILLEGAL]
    results = store.put_messages([inner(body=bytes(2000)) for _ in range(3)])
    assert [r.status for r in results] == [P.MESSAGE_ILLEGAL]
    assert store.max_physical_offset == 0


def test_store_times_never_decrease(stores, inner):
    store = stores.start()
    first = store.put_message(inner()).store_timestamp
    stores.clock.jump(-5000)
    assert store.put_message(inner()).store_timestamp == first


def test_dispatch_is_put_off_to_the_end_of_the_turn(stores, inner):
    turn = []
    store = stores.start(defer=turn.append)
    for _ in range(3):
        store.put_message(inner())
    assert len(turn) == 1
    assert store.get_max_offset("TopicA", 0) == 0
    assert store.dispatch_behind_bytes == store.max_physical_offset
    turn.pop()()
    assert store.get_max_offset("TopicA", 0) == 3
    assert store.dispatch_behind_bytes == 0
    store.put_message(inner())
    assert len(turn) == 1


def test_a_full_disk_is_an_answer_and_ends_by_itself(stores, inner, faulty_disk):
    store = stores.start(disk=faulty_disk)
    store.put_message(inner(body=bytes(3000)))
    store.worker.drain()
    store.log.preparer.discard()
    faulty_disk.fail["reserve"] = DiskFullError("commitlog/x: No space left on device")
    end = store.max_physical_offset
    result = store.put_message(inner(body=bytes(3000)))
    assert result.status is P.SERVICE_NOT_AVAILABLE
    assert "No space" in result.remark
    assert store.max_physical_offset == end
    assert not store.writable
    assert store.put_message(inner()).status is P.SERVICE_NOT_AVAILABLE
    assert bodies(store.get_message("TopicA", 0, 0)) == [bytes(3000)]
    del faulty_disk.fail["reserve"]
    stores.clock.advance(1_000)
    result = store.put_message(inner(body=bytes(3000)))
    assert (result.status, result.queue_offset) == (P.PUT_OK, 1)
    assert store.writable


def test_a_full_disk_and_its_end_are_each_reported_once(stores, inner, faulty_disk, caplog):
    caplog.set_level("WARNING", "broker.store.faults.handler")
    store = stores.start(disk=faulty_disk)
    store.put_message(inner(body=bytes(3000)))
    store.worker.drain()
    store.log.preparer.discard()
    faulty_disk.fail["reserve"] = DiskFullError("commitlog/x: No space left on device")
    for _ in range(5):
        store.put_message(inner(body=bytes(3000)))
        stores.clock.advance(1_000)
    del faulty_disk.fail["reserve"]
    for _ in range(20):
        stores.clock.advance(1_000)
        store.put_message(inner(body=bytes(3000)))
        store.clean_expired()
    first, second = [record.getMessage() for record in caplog.records]
    assert "writes are refused until there is space" in first
    assert "writes are accepted" in second


def test_a_queue_without_room_refuses_the_message(stores, inner, faulty_disk):
    store = stores.start(disk=faulty_disk)
    store.put_message(inner())
    end = store.max_physical_offset
    faulty_disk.fail["reserve"] = DiskFullError("consumequeue/x: No space left on device")
    result = store.put_message(inner(topic="TopicB"))
    assert result.status is P.SERVICE_NOT_AVAILABLE
    assert "consumequeue/x" in result.remark
    assert store.max_physical_offset == end
    assert not store.writable
    del faulty_disk.fail["reserve"]
    stores.clock.advance(1_000)
    assert store.put_message(inner(topic="TopicB")).queue_offset == 0
    assert store.get_max_offset("TopicB", 0) == 1
    assert store.dispatch_behind_bytes == 0


def test_a_batch_without_room_in_its_queue_is_refused_as_a_whole(stores, inner, faulty_disk):
    store = stores.start(disk=faulty_disk)
    for _ in range(18):
        store.put_message(inner())
    end = store.max_physical_offset
    faulty_disk.fail["reserve"] = DiskFullError("consumequeue/x: No space left on device")
    (result,) = store.put_messages([inner()] * 4)
    assert result.status is P.SERVICE_NOT_AVAILABLE
    assert store.max_physical_offset == end
    del faulty_disk.fail["reserve"]
    stores.clock.advance(1_000)
    results = store.put_messages([inner()] * 30)
    assert [result.queue_offset for result in results] == list(range(18, 48))
    assert store.get_max_offset("TopicA", 0) == 48


def test_an_index_without_room_keeps_entries_until_there_is(stores, inner, faulty_disk):
    store = stores.start(disk=faulty_disk)
    for number in range(48):
        store.put_message(inner(queue_id=number % 8, properties={"KEYS": f"k{number}"}))
    faulty_disk.fail["reserve"] = DiskFullError("index/x: No space left on device")
    result = store.put_message(inner(properties={"KEYS": "a b c"}))
    assert result.status is P.PUT_OK
    assert not store.writable
    assert store.dispatch_behind_bytes == 0
    for _ in range(2):
        for key in ("k0", "k47", "a", "b", "c"):
            assert len(store.query_message("TopicA", key, 9, 0, 1 << 62).buffers) == 1, key
        faulty_disk.fail.pop("reserve", None)
        stores.clock.advance(1_000)
        assert store.put_message(inner(properties={"KEYS": "later"})).status is P.PUT_OK
    assert not store.index.waiting
    assert len(store.index.files) == 2


def test_a_stop_with_pending_entries_is_not_clean(stores, inner, faulty_disk):
    store = stores.start(disk=faulty_disk)
    for _ in range(49):
        store.put_message(inner(properties={"KEYS": "k"}))
    faulty_disk.fail["reserve"] = DiskFullError("index/x: No space left on device")
    store.put_message(inner(properties={"KEYS": "a b"}))
    root = store.config.root
    store.shutdown()
    assert faulty_disk.exists(f"{root}/abort")
    del faulty_disk.fail["reserve"]
    store = stores.start()
    for key in "ab":
        assert len(store.query_message("TopicA", key, 9, 0, 1 << 62).buffers) == 1


def test_a_limit_on_file_size_raises_no_signal(stores, inner, tmp_path: Path):
    import resource

    store = stores.start()
    store.put_message(inner(body=bytes(3000)))
    store.worker.drain()
    store.log.preparer.discard()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        result = store.put_message(inner(body=bytes(3000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.status is P.SERVICE_NOT_AVAILABLE


def items(inners) -> bytes:
    """A batch body of these messages."""
    return b"".join(encode_batch_item(m.flag, bytes(m.body), m.properties[:-1]) for m in inners)


def encoded(store, inners):
    """A batch of these messages, encoded at once; they share the fields of the first one."""
    batch = store.new_batch(msgspec.structs.replace(inners[0], properties=b""))
    for _ in batch.encode_items(items(inners)):
        pass
    return batch


class TestPutBatch:
    """Batches that are encoded before they are appended."""

    def test_a_put_between_its_steps_comes_before_all_of_it(self, stores, inner, monkeypatch):
        monkeypatch.setattr(encoded_batch, "ITEMS_PER_STEP", 2)
        store = stores.start()
        batch = store.new_batch(inner())
        encoding = batch.encode_items(items([inner(body=b"b%d" % n) for n in range(4)]))
        next(encoding)
        assert store.put_message(inner(body=b"single")).queue_offset == 0
        for _ in encoding:
            pass
        assert store.put_batch(batch).queue_offset == 1
        assert bodies(store.get_message("TopicA", 0, 0)) == [b"single", b"b0", b"b1", b"b2", b"b3"]

    def test_it_stays_in_one_file(self, stores, inner):
        store = stores.start()
        size = store.config.mapped_file_size_commit_log
        while store.max_physical_offset % size < size - 1000:
            store.put_message(inner(body=bytes(300)))
        stored = store.put_batch(encoded(store, [inner(body=bytes(300)) for _ in range(4)]))
        assert stored.physical_offsets[0] % size == 0
        assert len({offset // size for offset in stored.physical_offsets}) == 1
        store = stores.reopen(store)
        assert store.report.clean

    def test_a_batch_longer_than_a_file_is_refused(self, stores, inner):
        store = stores.start()
        stored = store.put_batch(encoded(store, [inner(body=bytes(2000))] * 30))
        assert stored.status is P.MESSAGE_ILLEGAL
        assert (store.max_physical_offset, store.get_max_offset("TopicA", 0)) == (0, 0)

    @pytest.mark.parametrize(
        ("changes", "status"),
        [
            ({"body": bytes(3001)}, P.MESSAGE_ILLEGAL),
            ({"properties": b"k\x01" + b"v" * 32765 + b"\x02"}, P.PROPERTIES_SIZE_EXCEEDED),
            ({"topic": "a/b"}, P.MESSAGE_ILLEGAL),
            ({"queue_id": -1}, P.MESSAGE_ILLEGAL),
        ],
    )
    def test_an_illegal_message_leaves_nothing(self, stores, inner, changes, status):
        store = stores.start()
        legal = {name: changes[name] for name in ("topic", "queue_id") if name in changes}
        put = store.put_batch(encoded(store, [inner(**legal), inner(**changes), inner(**legal)]))
        assert put.status is status
        assert put.remark == store.put_message(inner(**changes)).remark
        assert store.max_physical_offset == 0

    def test_a_store_that_refuses_puts_refuses_it(self, stores, inner):
        store = stores.start()
        batch = encoded(store, [inner(), inner()])
        store.flags.make_disk_over_limit("full")
        stored = store.put_batch(batch)
        assert (stored.status, stored.remark) == (
            P.SERVICE_NOT_AVAILABLE,
            "disk full: full",
        )
        assert store.max_physical_offset == 0

    def test_a_full_disk_stores_none_of_it(self, stores, inner, faulty_disk):
        store = stores.start(disk=faulty_disk)
        assert store.put_message(inner()).status is P.PUT_OK
        end = store.max_physical_offset
        faulty_disk.fail["reserve"] = DiskFullError("consumequeue/x: No space left on device")
        stored = store.put_batch(encoded(store, [inner(queue_id=1)] * 3))
        assert stored.status is P.SERVICE_NOT_AVAILABLE
        assert (store.max_physical_offset, store.get_max_offset("TopicA", 1)) == (end, 0)
        del faulty_disk.fail["reserve"]
        stores.clock.advance(1_000)
        assert store.put_batch(encoded(store, [inner(queue_id=1)] * 3)).queue_offset == 0
        assert store.get_max_offset("TopicA", 1) == 3

    @pytest.mark.parametrize("changes", [{"sys_flag": 0x80}, {"sys_flag": 4}])
    def test_messages_completed_at_the_append_are_not_encoded_before(self, stores, inner, changes):
        assert stores.start().new_batch(inner(**changes)) is None

    def test_multi_dispatch_batches_are_not_encoded_before(self, stores, inner):
        store = stores.start(stores.config(enable_multi_dispatch=True))
        assert store.new_batch(inner()) is None
