"""ConsumeQueueValidator: which queues the manifest expects, and which units the log confirms."""

import json

import pytest

from broker.common import sysflag

MANIFEST = "queueEnds.json"


@pytest.fixture
def stopped(stores, inner):
    """A cleanly stopped store with two queues of three messages."""
    store = stores.start()
    for number in range(6):
        store.put_message(inner(queue_id=number % 2, body=b"%d" % number))
    stores.close(store)
    return stores


def expect(stores, **queues):
    path = stores.root / MANIFEST
    content = json.loads(path.read_text())
    content["queues"]["TopicA"] |= queues
    path.write_text(json.dumps(content))


def test_a_store_that_matches_its_manifest_is_not_scanned(stopped):
    store = stopped.start()
    assert store.report.scanned_bytes == 0
    assert store.report.notes == []


def test_a_queue_shorter_than_its_manifest_makes_the_whole_log_be_read(stopped):
    expect(stopped, **{"1": 4})
    store = stopped.start()
    assert any("consumequeue/TopicA/1: ends at 3, expected 4" in n for n in store.report.notes)
    assert store.report.scanned_from == 0
    assert store.report.scanned_bytes > 0
    assert store.get_max_offset("TopicA", 1) == 3


def test_units_past_the_end_that_the_log_does_not_confirm_are_removed(stopped, inner):
    """After a power cut units may be on the disk whose records are not."""
    store = stopped.start()
    last = store.put_message(inner(queue_id=0, body=b"lost"))
    root = stopped.root
    stopped.close(store)
    log = root / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[last.physical_offset : last.physical_end] = bytes(last.store_size)
    log.write_bytes(data)
    (root / MANIFEST).unlink()
    (root / "abort").write_bytes(b"")
    store = stopped.start()
    assert store.get_max_offset("TopicA", 0) == 3
    assert store.put_message(inner(queue_id=0)).queue_offset == 3


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_the_last_batch_of_a_batch_queue_survives_a_restart(stores, inner, killed):
    """Its unit covers several queue offsets; only the first of them is in the record."""
    store = stores.start()
    store.queue_table.set_batch_topics(["Bulk"])
    flags = sysflag.INNER_BATCH | sysflag.NEED_UNWRAP
    store.put_message(inner("Bulk", sys_flag=flags, properties={"INNER_NUM": "3"}))
    store.put_message(inner("Later"))
    stores.close(store)
    if killed:
        (stores.root / "abort").write_bytes(b"")
    store = stores.start()
    assert store.get_max_offset("Bulk", 0) == 3
    assert not [note for note in store.report.notes if "Bulk" in note]
    assert store.get_message("Bulk", 0, 0).message_count


def test_a_corrupt_end_of_a_queue_is_rebuilt(stopped, inner):
    """A unit before the start of the log would be expired, but no offset is negative."""
    path = stopped.root / "consumequeue" / "TopicA" / "0" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    lost = bytes(data[20:60])
    data[20:40] = (1 << 40).to_bytes(8, "big") + bytes(data[28:40])  # past the end of the log
    data[40:60] = (-9).to_bytes(8, "big", signed=True) + bytes(data[48:60])
    data[60:80] = (1 << 41).to_bytes(8, "big") + bytes(data[28:40])
    path.write_bytes(data)
    store = stopped.start()
    assert store.get_max_offset("TopicA", 0) == 3
    assert path.read_bytes()[20:60] == lost
    assert store.put_message(inner(queue_id=0)).queue_offset == 3


@pytest.fixture
def batches(stores, inner):
    """A cleanly stopped store with a batch queue of three units of three messages; its file."""
    store = stores.start()
    store.queue_table.set_batch_topics(["Bulk"])
    for number in range(3):
        properties = {"INNER_NUM": "3"}
        store.put_message(inner("Bulk", body=b"%d" % number, sys_flag=0xC0, properties=properties))
    stores.close(store)
    return stores.root / "batchconsumequeue" / "Bulk" / "0" / f"{0:020d}"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("unit", [0, 1])
def test_corrupt_bases_of_a_batch_queue_end_no_start(stores, batches, unit):
    whole = batches.read_bytes()
    data = bytearray(whole)
    data[unit * 46 + 28 : unit * 46 + 36] = (1 << 60).to_bytes(8, "big")
    data[2 * 46 : 2 * 46 + 8] = (1 << 40).to_bytes(8, "big")
    batches.write_bytes(data)
    store = stores.start()
    assert (store.get_min_offset("Bulk", 0), store.get_max_offset("Bulk", 0)) == (0, 9)
    assert batches.read_bytes() == whole


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("unit", [0, 1, 2])
@pytest.mark.parametrize(
    ("field", "value"),
    [("base", 0), ("base", 2), ("base", 1 << 62), ("base", -1), ("count", 0x7FFF), ("count", 0)],
)
def test_a_corrupt_unit_of_a_batch_queue_costs_no_message(
    stores, batches, unit, field, value, killed
):
    whole = batches.read_bytes()
    data = bytearray(whole)
    at, size = (28, 8) if field == "base" else (36, 2)
    data[unit * 46 + at : unit * 46 + at + size] = value.to_bytes(size, "big", signed=True)
    if data == whole:
        return
    batches.write_bytes(data)
    if killed:
        (stores.root / "abort").write_bytes(b"")
    store = stores.start()
    assert (store.get_min_offset("Bulk", 0), store.get_max_offset("Bulk", 0)) == (0, 9)
    for offset in range(9):
        assert store.get_message("Bulk", 0, offset, 1).next_begin_offset == offset // 3 * 3 + 3
    assert batches.read_bytes() == whole
