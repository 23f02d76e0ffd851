"""Opening a store: after clean stops, kills, power cuts, other brokers, damage."""

import json
import os
import shutil
from pathlib import Path

import pytest

from broker.message.record import decode_record
from broker.store.dispatch.reput import ReputService
from broker.store.format.checkpoint import Checkpoint, encode_checkpoint
from broker.store.format.commitlog import check_record
from broker.store.format.state import QUEUE_ENDS
from broker.store.message_store import PutMessageStatus
from broker.store.recovery import log_scan
from broker.store.recovery.runs import encoded_run
from broker.store.recovery.runs.run_dispatcher import DispatchedRun, RunDispatcher
from broker.store.recovery.store_recovery import SYNC_FAILED
from tests.support.killed_dispatch import Killed, killed_at_write


@pytest.fixture
def filled(stores, inner):
    """A closed store of 40 messages in three queues over several files; their results."""
    store = stores.start()
    results = []
    for n in range(40):
        stores.clock.advance(1000)
        results.append(
            store.put_message(
                inner(queue_id=n % 3, body=b"%04d" % n * 60, properties={"KEYS": f"k{n}"})
            )
        )
    stores.close(store)
    return results


def log_path(stores, physical_offset):
    start = physical_offset - physical_offset % 4096
    return stores.root / "commitlog" / f"{start:020d}"


def poke(stores, physical_offset, data):
    path = log_path(stores, physical_offset)
    content = bytearray(path.read_bytes())
    at = physical_offset % 4096
    content[at : at + len(data)] = data
    path.write_bytes(content)


def crash(stores, **times):
    """Leave the store as a power cut does: ``abort`` of an unknown kernel, a checkpoint."""
    (stores.root / "abort").write_bytes(b"")
    (stores.root / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(**times)))


def numbers(store):
    found = {}
    for topic, queue_ids in store.queues().items():
        for queue_id in queue_ids:
            offset = store.get_min_offset(topic, queue_id)
            while True:
                result = store.get_message(topic, queue_id, offset)
                if offset >= result.max_offset:
                    break
                for buffer in result.buffers:
                    position = 0
                    while position < len(buffer):
                        message = decode_record(buffer, position)
                        found[int(message.body[:4])] = (queue_id, message.queue_offset)
                        position += message.total_size
                offset = result.next_begin_offset
    return found


ALL = {n: (n % 3, n // 3) for n in range(40)}


def without(*gone):
    return {n: place for n, place in ALL.items() if n not in gone}


# --- clean ----------------------------------------------------------------------------------------


def test_after_our_own_clean_stop_nothing_is_read(stores, filled):
    store = stores.start()
    assert store.report.clean
    assert store.report.scanned_bytes == 0
    assert store.report.log_end == filled[-1].physical_end
    assert numbers(store) == ALL


def test_after_another_brokers_clean_stop_the_log_is_read_once(stores, filled):
    (stores.root / QUEUE_ENDS).unlink()
    store = stores.reopen(stores.start())
    assert store.report.scanned_bytes == 0
    assert numbers(store) == ALL


@pytest.mark.parametrize("stale", [b"", b"[]", b"{", b'{"logEnd": 1, "queues": {}}'])
def test_a_list_of_queue_ends_that_does_not_fit_is_not_believed(stores, filled, stale):
    (stores.root / QUEUE_ENDS).write_bytes(stale)
    shutil.rmtree(stores.root / "consumequeue" / "TopicA" / "1")
    assert numbers(stores.start()) == ALL


@pytest.mark.parametrize("gone", ["0", "1", "2"])
def test_a_lost_queue_comes_back(stores, filled, gone):
    """Java leaves it at [0,0] or gives back only its end."""
    shutil.rmtree(stores.root / "consumequeue" / "TopicA" / gone)
    store = stores.start()
    assert numbers(store) == ALL
    assert len(store.query_message("TopicA", "k5", 9, 0, 1 << 62).buffers) == 1


def test_a_queue_of_a_killed_java_broker_whose_first_file_is_lost_comes_back(stores, inner):
    """Without a list of queue ends the file may as well have expired."""
    store = stores.start()
    for n in range(60):
        stores.clock.advance(1000)
        store.put_message(inner(queue_id=n % 2, body=b"%04d" % n * 60))
    stores.close(store)
    (stores.root / QUEUE_ENDS).unlink()
    files = sorted((stores.root / "consumequeue" / "TopicA" / "1").iterdir())
    assert len(files) == 2
    files[0].unlink()
    now = stores.clock.now_ms()
    crash(stores, physic_msg_timestamp=now, logics_msg_timestamp=now)
    store = stores.start()
    assert numbers(store) == {n: (n % 2, n // 2) for n in range(60)}
    assert any("another broker" in note for note in store.report.notes)


def test_all_derived_files_come_back(stores, filled):
    shutil.rmtree(stores.root / "consumequeue")
    shutil.rmtree(stores.root / "index")
    store = stores.start()
    assert numbers(store) == ALL
    for n in range(40):
        assert len(store.query_message("TopicA", f"k{n}", 9, 0, 1 << 62).buffers) == 1


def test_units_zeroed_at_the_end_of_a_queue_come_back(stores, filled):
    path = stores.root / "consumequeue" / "TopicA" / "1" / f"{0:020d}"
    path.write_bytes(path.read_bytes()[:100].ljust(400, b"\0"))
    assert numbers(stores.start()) == ALL


@pytest.mark.parametrize("whole", [True, False])
def test_a_start_that_changes_files_announces_it(stores, filled, whole):
    """A power cut in the middle of it must not look like a clean stop."""
    if whole:
        shutil.rmtree(stores.root / "consumequeue")
    else:
        shutil.rmtree(stores.root / "index")
    store = stores.load()
    assert store.report.clean
    assert store.report.dispatched
    assert (stores.root / "abort").read_bytes() == b""
    assert json.loads((stores.root / QUEUE_ENDS).read_text()).get("reread", False) is whole
    store.start()
    assert json.loads((stores.root / QUEUE_ENDS).read_text()).get("reread", False) is False
    assert numbers(store) == ALL


def test_a_start_that_changes_nothing_leaves_no_mark(stores, filled):
    store = stores.load()
    assert store.report.dispatched == 0
    assert not (stores.root / "abort").exists()


def test_without_a_log_the_list_of_queues_is_empty(stores, filled, inner):
    """As in Java, if no file records that a log existed."""
    shutil.rmtree(stores.root / "commitlog")
    (stores.root / QUEUE_ENDS).unlink()
    store = stores.start()
    assert store.queues() == {}
    assert store.max_physical_offset == 0
    assert store.put_message(inner()).queue_offset == 0


def test_an_empty_directory_is_an_empty_store(stores):
    store = stores.start()
    assert store.report.clean
    assert store.queues() == {}


# --- killed, the same kernel runs on --------------------------------------------------------------


def test_after_a_kill_everything_stored_is_there(stores, inner):
    store = stores.start()
    for n in range(40):
        stores.clock.advance(1000)
        store.put_message(
            inner(queue_id=n % 3, body=b"%04d" % n * 60, properties={"KEYS": f"k{n}"})
        )
    stores.kill(store)
    store = stores.start()
    assert not store.report.clean
    assert store.report.scanned_bytes < 1000
    assert numbers(store) == ALL
    for n in range(40):
        assert len(store.query_message("TopicA", f"k{n}", 9, 0, 1 << 62).buffers) == 1
    assert store.put_message(inner(queue_id=1)).queue_offset == 13


def test_undispatched_records_are_dispatched_then(stores, inner):
    turn = []
    store = stores.start(defer=turn.append)
    for n in range(40):
        if n == 30:
            turn.pop()()
        store.put_message(
            inner(queue_id=n % 3, body=b"%04d" % n * 60, properties={"KEYS": f"k{n}"})
        )
    stores.kill(store)
    store = stores.start()
    assert numbers(store) == ALL
    for n in range(40):
        assert len(store.query_message("TopicA", f"k{n}", 9, 0, 1 << 62).buffers) == 1


def test_a_torn_last_record_is_cut_off(stores, inner):
    store = stores.start()
    store.put_message(inner(body=b"0000"))
    torn = store.put_message(inner(body=b"0001" * 100))
    stores.kill(store)
    queue = stores.root / "consumequeue" / "TopicA" / "0" / f"{0:020d}"
    queue.write_bytes(queue.read_bytes()[:20].ljust(400, b"\0"))
    poke(stores, torn.physical_offset + 200, bytes(300))
    store = stores.start()
    assert store.max_physical_offset == torn.physical_offset
    assert numbers(store) == {0: (0, 0)}
    again = store.put_message(inner(body=b"0002"))
    assert (again.physical_offset, again.queue_offset) == (torn.physical_offset, 1)


def test_a_kill_right_after_a_roll(stores, inner):
    store = stores.start()
    store.put_message(inner(body=b"0000" * 500))
    store.worker.drain()
    store.log.ensure_capacity(3000)
    stores.kill(store)
    store = stores.start()
    assert numbers(store) == {0: (0, 0)}
    store.put_message(inner(body=b"0001" * 500))
    assert numbers(store) == {0: (0, 0), 1: (0, 1)}


@pytest.mark.parametrize("cut", [False, True], ids=["killed", "power-cut"])
@pytest.mark.parametrize("count", [20, 21, 40, 45])
def test_the_newest_file_of_a_queue_that_is_missing_comes_back(stores, inner, cut, count):
    """A queue that ends where a file ends may have had one more: the log decides."""
    store = stores.start()
    for n in range(count + 60):
        stores.clock.advance(5000)
        keys = {"KEYS": f"k{n}"}
        store.put_message(inner(queue_id=int(n >= count), body=b"%04d" % n * 60, properties=keys))
        if n == count - 1:
            assert store.flush()  # queueEnds.json contains the flushed ends
    all_numbers = numbers(store)
    stores.kill(store)
    last = sorted((stores.root / "consumequeue" / "TopicA" / "0").iterdir())[-1]
    last.unlink()
    if cut:
        late = 1 << 50
        crash(
            stores,
            physic_msg_timestamp=late,
            logics_msg_timestamp=late,
            index_msg_timestamp=late,
        )
    store = stores.start()
    assert numbers(store) == all_numbers
    # a queue that lost its only file in a kill is a missing folder: no unit shows its end
    reported = any(str(last.parent) in note for note in store.report.notes)
    assert reported is (count > 20 or cut), store.report.notes
    for n in range(count + 60):
        assert len(store.query_message("TopicA", f"k{n}", 9, 0, 1 << 62).buffers) == 1
    assert store.put_message(inner(queue_id=0)).queue_offset == count


# --- power cut, another kernel --------------------------------------------------------------------


def test_a_cut_without_checkpoint_reads_the_whole_log(stores, filled):
    crash(stores)
    store = stores.start()
    assert not store.report.clean
    assert store.report.scanned_from == 0
    assert numbers(store) == ALL


def test_the_checkpoint_chooses_the_file(stores, filled):
    """The newest file whose first record is at least 3 s older than both times."""
    first_of = {}
    for result in filled:
        first_of.setdefault(result.physical_offset // 4096, result.store_timestamp)
    assert len(first_of) > 3
    for time, expected in (
        (first_of[2] + 3000, 2),
        (first_of[2] + 2999, 1),
        (first_of[3] + 3000, 3),
        (1, 0),
    ):
        crash(
            stores,
            physic_msg_timestamp=time,
            logics_msg_timestamp=time + 5,
            index_msg_timestamp=1 << 50,
        )
        store = stores.start(stores.config(message_index_enable=False))
        assert store.report.scanned_from == expected * 4096
        assert numbers(store) == ALL
        stores.close(store)


def test_a_safe_index_moves_the_start_of_the_queues_back(stores, filled, monkeypatch):
    late = filled[-1].store_timestamp + 10_000
    placed = []
    append = ReputService.append_repaired

    def recorded(self, request, *rest):
        placed.append(request.physical_offset)
        append(self, request, *rest)

    monkeypatch.setattr(ReputService, "append_repaired", recorded)
    # Without runs each unit is placed by that function.
    monkeypatch.setattr(RunDispatcher, "dispatch_run", lambda *args, **_: DispatchedRun(0, args[2]))
    crash(stores, physic_msg_timestamp=late, logics_msg_timestamp=late, index_msg_timestamp=1 << 50)
    stores.close(stores.start())
    assert min(placed) > 4096
    crash(stores, physic_msg_timestamp=late, logics_msg_timestamp=late)
    stores.start(stores.config(message_index_safe=True))
    assert min(placed) == 0


@pytest.mark.parametrize("wrong", [-1, 0, 1, 99])
def test_a_wrong_queue_offset_where_the_scan_begins_hides_one_message(stores, filled, wrong):
    """The log before it is not read: units that are removed could not be added again."""
    begin = 3 * 4096
    number = next(n for n, result in enumerate(filled) if result.physical_offset == begin)
    poke(stores, begin + 20, wrong.to_bytes(8, "big", signed=True))
    time = filled[number].store_timestamp + 3000
    crash(stores, physic_msg_timestamp=time, logics_msg_timestamp=time)
    store = stores.start(stores.config(message_index_enable=False))
    assert store.report.scanned_from == begin
    assert numbers(store) == {n: place for n, place in ALL.items() if n != number}


def test_no_key_is_lost_to_an_old_checkpoint(stores, filled):
    """Java removes index files that are newer, and fills them only from the start file on."""
    late = filled[-1].store_timestamp + 10_000
    crash(stores, physic_msg_timestamp=late, logics_msg_timestamp=late)
    store = stores.start()
    for n in range(40):
        assert len(store.query_message("TopicA", f"k{n}", 9, 0, 1 << 62).buffers) == 1


def test_a_page_of_zeros_in_a_queue_is_filled_again(stores, filled):
    path = stores.root / "consumequeue" / "TopicA" / "2" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[40:120] = bytes(80)
    path.write_bytes(data)
    crash(stores)
    assert numbers(stores.start()) == ALL


def test_a_spare_file_of_zeros_does_not_end_the_log(stores, filled):
    last = max(os.listdir(stores.root / "commitlog"))
    spare = stores.root / "commitlog" / f"{int(last) + 4096:020d}"
    spare.write_bytes(bytes(4096))
    crash(stores)
    store = stores.start()
    assert numbers(store) == ALL
    assert store.max_physical_offset == filled[-1].physical_end


def test_garbage_after_the_last_record_is_truncated(stores, filled):
    poke(stores, filled[-1].physical_end, b"\xff" * 100)
    crash(stores)
    store = stores.start()
    assert store.max_physical_offset == filled[-1].physical_end
    assert numbers(store) == ALL


def test_queues_are_cut_to_the_log(stores, filled):
    torn = filled[38].physical_offset
    for result in filled[38:]:
        poke(stores, result.physical_offset, bytes(result.store_size))
    crash(stores)
    store = stores.start()
    assert store.max_physical_offset == torn
    assert numbers(store) == without(38, 39)
    assert store.get_max_offset("TopicA", 2) == 12


# --- damage in the middle -------------------------------------------------------------------------


def check_others(store, damaged):
    """All messages but the damaged one are served."""
    found = numbers(store)
    found.pop(damaged, None)
    assert found == without(damaged)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("at", [0, 4, 84, 90, 36])
def test_damage_costs_no_neighbour(stores, filled, at, clean):
    """Size, magic, body length, body, sysFlag of one record in the middle."""
    victim = filled[17]
    poke(stores, victim.physical_offset + at, b"\x7e\x7e\x7e\x7e")
    if clean:
        (stores.root / QUEUE_ENDS).unlink()
    else:
        crash(stores)
    store = stores.start()
    check_others(store, 17)
    assert store.max_physical_offset == filled[-1].physical_end
    if not clean or at != 90:
        assert [d.physical_offset for d in store.report.damaged_regions] == [victim.physical_offset]
    store = stores.reopen(store)
    assert store.report.clean
    check_others(store, 17)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("wrong", [0, 1, -1])
def test_a_corrupt_offset_of_the_last_record_of_a_queue_hides_no_other(
    stores, filled, wrong, clean
):
    """With offset 0 it restarted the topic, because its unit was dropped before the scan."""
    last = filled[39]
    poke(stores, last.physical_offset + 20, wrong.to_bytes(8, "big", signed=True))
    if clean:
        (stores.root / QUEUE_ENDS).unlink()
    else:
        crash(stores)
    store = stores.start()
    check_others(store, 39)
    assert [d.physical_offset for d in store.report.damaged_regions] == [last.physical_offset]
    assert store.get_max_offset("TopicA", 0) == 14


def test_a_missing_file_in_the_middle_costs_its_records_only(stores, filled):
    victims = {n for n, result in enumerate(filled) if result.physical_offset // 4096 == 1}
    log_path(stores, 4096).unlink()
    for prepare in (lambda: (stores.root / QUEUE_ENDS).unlink(), lambda: crash(stores)):
        prepare()
        store = stores.start()
        assert numbers(store) == without(*victims)
        assert store.max_physical_offset == filled[-1].physical_end
        stores.close(store)


def test_records_left_from_before_a_cut_do_not_come_back(stores, inner):
    """A truncated log that was continued: old records past its new end look valid."""
    store = stores.start()
    old = [store.put_message(inner(body=b"%04d" % n)) for n in range(10)]
    stores.close(store)
    # Cut at the fourth, as Java does: nothing is erased.
    store = stores.load()
    store.log.open_at(old[3].physical_offset, old[3].store_timestamp)
    for queue in store.queue_table.all():
        queue.truncate_to_log(old[3].physical_offset)
        queue.next_offset = queue.max_offset
    store.reput.offset = old[3].physical_offset
    stores.clock.advance(60_000)
    store.start()
    # Longer than the record it replaces: its end is inside an old one.
    store.put_message(inner(body=b"0100" * 8))
    stores.close(store)
    crash(stores)
    store = stores.start()
    assert numbers(store) == {0: (0, 0), 1: (0, 1), 2: (0, 2), 100: (0, 3)}


# --- deleted topics -------------------------------------------------------------------------------


def write_topics(stores, *names):
    folder = stores.root / "config"
    folder.mkdir(exist_ok=True)
    table = {name: {"topicName": name} for name in names}
    (folder / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


def test_a_deleted_topic_stays_deleted(stores, inner):
    store = stores.start()
    for n in range(6):
        store.put_message(inner("Gone" if n % 2 else "Kept", body=b"%04d" % n))
    store.delete_topics(["Gone"])
    write_topics(stores, "Kept")
    stores.close(store)
    crash(stores)
    store = stores.start()
    assert store.queues() == {"Kept": [0]}
    assert not (stores.root / "consumequeue" / "Gone").exists()


def test_the_next_life_of_a_topic_wins(stores, inner):
    store = stores.start()
    for n in range(6):
        store.put_message(inner(body=b"%04d" % n))
    store.delete_topics(["TopicA"])
    for n in range(10, 13):
        store.put_message(inner(body=b"%04d" % n))
    stores.close(store)
    shutil.rmtree(stores.root / "consumequeue")
    crash(stores)
    store = stores.start()
    assert numbers(store) == {10: (0, 0), 11: (0, 1), 12: (0, 2)}


def test_entries_past_the_end_of_a_log_after_a_power_cut_are_dropped(stores, inner):
    """The log restarts below deletions, damaged regions and entries: none applies to it."""
    store = stores.start()
    for n in range(6):
        store.put_message(inner(body=b"%04d" % n, properties={"KEYS": f"k{n}"}))
    store.delete_topics(["TopicA"])
    stores.kill(store)
    for name in ("commitlog", "consumequeue"):
        shutil.rmtree(stores.root / name)
    ends = json.loads((stores.root / QUEUE_ENDS).read_text())
    assert ends["deleted"]["TopicA"] > 300
    noted = {**ends, "logEnd": 0, "damaged": [[0, 500]]}  # nothing was flushed
    (stores.root / QUEUE_ENDS).write_text(json.dumps(noted))
    crash(stores)
    store = stores.start()
    for n in range(10, 13):
        store.put_message(inner(body=b"%04d" % n, properties={"KEYS": f"k{n}"}))
    stores.close(store)
    shutil.rmtree(stores.root / "consumequeue")
    store = stores.start()
    assert numbers(store) == {10: (0, 0), 11: (0, 1), 12: (0, 2)}
    hits = [len(store.query_message("TopicA", key, 9, 0, 1 << 62).buffers) for key in ("k0", "k10")]
    assert hits == [0, 1]


def test_a_unit_of_a_lost_record_that_becomes_the_last_one_is_dropped_at_once(stores, filled):
    """After the end of the log is known: a clean start would drop it, and read the whole log."""
    lost, torn = filled[36], filled[39]  # the last two of queue 0; other records follow each
    size = filled[37].physical_offset - lost.physical_offset
    poke(stores, lost.physical_offset, bytes(size))
    poke(stores, torn.physical_offset + 120, b"torn")
    crash(stores)
    store = stores.start()
    assert store.report.log_end == torn.physical_offset
    assert store.report.damaged_regions[0].physical_offset == lost.physical_offset
    assert store.get_max_offset("TopicA", 0) == 12
    stores.close(store)
    store = stores.start()
    report = store.report
    assert (report.clean, report.dispatched, report.notes) == (True, 0, [])
    assert report.scanned_from > 0
    assert store.get_max_offset("TopicA", 0) == 12


def test_system_topics_need_no_configuration(stores, inner):
    store = stores.start()
    store.put_message(inner("%RETRY%GroupA", body=b"0001"))
    store.put_message(inner("RMQ_SYS_TRANS_OP_HALF_TOPIC", body=b"0002"))
    stores.close(store)
    write_topics(stores, "Kept")
    shutil.rmtree(stores.root / "consumequeue")
    crash(stores)
    store = stores.start()
    assert set(store.queues()) == {"%RETRY%GroupA", "RMQ_SYS_TRANS_OP_HALF_TOPIC"}


def test_an_unreadable_topics_file_means_every_topic_counts(stores, filled):
    folder = stores.root / "config"
    folder.mkdir()
    (folder / "topics.json").write_text("{")
    shutil.rmtree(stores.root / "consumequeue")
    assert numbers(stores.start()) == ALL


# --- markers --------------------------------------------------------------------------------------


def test_abort_contains_pid_boot_id_and_folder(stores):
    stores.start()
    pid, rest = (stores.root / "abort").read_text().split("\n", 1)
    assert int(pid) == os.getpid()
    assert "boot=" in rest
    assert "folder=" in rest


def test_a_copy_of_a_killed_store_is_read_closely(stores, inner, tmp_path: Path):
    """A copy is not made at one moment: the boot id of the checkpoint does not apply to it."""
    store = stores.start()
    for n in range(40):
        store.put_message(inner(queue_id=n % 3, body=b"%04d" % n * 60))
    stores.kill(store)
    shutil.copytree(stores.root, tmp_path / "copy")
    stores.root = tmp_path / "copy"
    store = stores.start()
    assert store.report.scanned_from == 0
    assert numbers(store) == ALL
    assert store.put_message(inner()).status is PutMessageStatus.PUT_OK


# --- the index alone is lost ----------------------------------------------------------------------


@pytest.mark.parametrize("killed", [True, False])
def test_a_lost_index_comes_back(stores, filled, killed):
    if killed:
        stores.kill(stores.start())
    shutil.rmtree(stores.root / "index")
    store = stores.start()
    for n in range(40):
        assert len(store.query_message("TopicA", f"k{n}", 9, 0, 1 << 62).buffers) == 1


def test_an_index_file_created_in_the_millisecond_of_the_checkpoint_is_not_trusted(stores, inner):
    """The checkpoint speaks of the full file before it; of this one anything may be lost."""
    store = stores.start()
    for n in range(55):
        store.put_message(inner(body=b"%04d" % n, properties={"KEYS": f"k{n}"}))
    now = stores.clock.now_ms()
    stores.close(store)
    last = sorted((stores.root / "index").iterdir())[-1]
    content = bytearray(last.read_bytes())
    content[40 : 40 + 20 * 4] = bytes(20 * 4)  # its slots
    last.write_bytes(content)
    crash(stores, physic_msg_timestamp=now + 1, logics_msg_timestamp=now, index_msg_timestamp=now)
    store = stores.start()
    for n in range(55):
        assert len(store.query_message("TopicA", f"k{n}", 9, 0, 1 << 62).buffers) == 1, n


def test_without_keys_a_kill_costs_no_reading(stores, inner):
    store = stores.start()
    for n in range(40):
        store.put_message(inner(body=b"%04d" % n * 60))
    stores.kill(store)
    assert stores.start().report.scanned_bytes < 1000


# --- bodies after a kill --------------------------------------------------------------------------


def flip_body(stores, body):
    """Change one byte of a body in the log."""
    (path,) = [path for path in (stores.root / "commitlog").iterdir() if body in path.read_bytes()]
    data = bytearray(path.read_bytes())
    data[data.index(body) + len(body) - 1] ^= 0x40
    path.write_bytes(data)


def put_and_kill(stores, inner, *, synced=0, config=None):
    """20 messages, the first ``synced`` of them covered by the checkpoint; then a kill."""
    store = stores.start(config or stores.config(flush_interval_consume_queue=3_600_000))
    for number in range(20):
        if number == synced and number:
            store.flush()
            store.checkpoint.flush()
        stores.clock.advance(10)
        store.put_message(inner(body=b"body %02d" % number, queue_id=number % 2))
    assert (store.checkpoint.value.physic_msg_timestamp > 0) is (synced > 0)
    stores.kill(store)


@pytest.mark.parametrize("number", [0, 7, 12, 19])
def test_a_body_that_changed_after_a_kill_is_not_served(stores, inner, number):
    put_and_kill(stores, inner)
    flip_body(stores, b"body %02d" % number)
    store = stores.start()
    (damage,) = store.report.damaged_regions
    assert "CRC" in damage.reason
    offset = number // 2
    result = store.get_message("TopicA", number % 2, offset, 1)
    assert result.message_count == 0
    # The others keep their places, and so does the next message.
    for other in set(range(20)) - {number}:
        found = store.get_message("TopicA", other % 2, other // 2, 1)
        assert found.message_count == 1, other
    assert store.put_message(inner(queue_id=number % 2)).queue_offset == 10


def test_after_a_kill_only_data_past_the_checkpoint_is_checked(stores, inner, monkeypatch):
    put_and_kill(stores, inner, synced=15)
    checked = []

    def check(mapping, position, end=None, *, check_crc=True):
        if check_crc:
            checked.append(position)
        return check_record(mapping, position, end, check_crc=check_crc)

    monkeypatch.setattr(log_scan, "check_record", check)
    store = stores.start()
    assert not store.report.clean
    assert store.report.scanned_bytes < 200
    # 5 after the checkpoint, the one that it names, and the place after the last one.
    assert len(checked) <= 7
    assert store.get_max_offset("TopicA", 0) == 10


def test_bodies_are_not_checked_if_that_is_switched_off(stores, inner):
    put_and_kill(stores, inner)
    flip_body(stores, b"body 07")
    store = stores.start(stores.config(check_crc_on_recover=False))
    assert store.report.damaged_regions == []
    stores.close(store)
    flip_body(stores, b"body 0w")  # back to the original value


@pytest.mark.parametrize("failed", [True, False])
def test_only_after_a_failed_sync_all_data_is_written_again(stores, inner, failed):
    """The kernel may have marked unwritten pages as clean, so that a sync would skip them."""
    put_and_kill(stores, inner)
    abort = stores.root / "abort"
    if failed:
        abort.write_bytes(abort.read_bytes() + SYNC_FAILED)
    store = stores.start()
    assert any("a sync failed" in note for note in store.report.notes) is failed
    assert store.get_max_offset("TopicA", 0) == 10
    # The mark of the last owner does not outlive the recovery.
    assert not abort.read_bytes().endswith(SYNC_FAILED)


def test_a_clean_stop_after_a_failed_sync_needs_no_rewrite(stores, filled):
    """The mark is in the abort file, which a clean stop removes."""
    store = stores.start()
    assert store.report.clean
    assert not any("a sync failed" in note for note in store.report.notes)


# --- killed while it recovers ---------------------------------------------------------------------


def nothing_lost(root: Path) -> None:
    pass


def a_queue_lost(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "TopicA" / "1")


def power_lost(root: Path) -> None:
    (root / "abort").write_bytes(b"")


def power_and_a_queue_lost(root: Path) -> None:
    power_lost(root)
    a_queue_lost(root)


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("index", [50, 12, 0])
@pytest.mark.parametrize(
    "lose",
    [nothing_lost, a_queue_lost, power_lost, power_and_a_queue_lost],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("rows", [3, 512])
def test_a_kill_during_recovery_loses_no_unit(
    stores, inner, monkeypatch, rows: int, lose, index: int, keys: bool
):
    """Each start is killed at a later write, and the next one continues with its files."""
    monkeypatch.setattr(encoded_run, "ROWS", rows)
    config = stores.config(
        mapped_file_size_commit_log=16_384,
        message_index_enable=index > 0,
        max_index_num=index or 50,
    )
    store = stores.start(config)
    for n in range(40):
        if n == 20:
            store = stores.reopen(store)
        if n == 30:
            store.reput.run = lambda *args: None  # stored, and killed before dispatch
        properties = {"KEYS": f"k{n}"} if keys else {}
        store.put_message(inner(queue_id=n % 3, body=b"%04d" % n * 60, properties=properties))
        stores.clock.advance(1000)
    stores.kill(store)
    lose(stores.root)
    for writes in range(60):
        with killed_at_write(writes):
            try:
                store = stores.load(config)
            except Killed:
                continue
        break
    assert writes
    assert numbers(store) == ALL
    for n in range(40) if index and keys else ():
        assert len(store.query_message("TopicA", f"k{n}", 9, 0, 1 << 62).buffers) == 1


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("gone", ["units", "queue"])
def test_queues_that_another_broker_left_incomplete_are_rebuilt(stores, inner, gone, killed):
    """Java scans from the file of the checkpoint, and the queue stays without its first units."""
    store = stores.start()
    for number in range(60):
        store.put_message(inner(queue_id=number % 2, body=b"%03d" % number))
        stores.clock.advance(1000)
    stores.close(store)
    (stores.root / "queueEnds.json").unlink()
    if killed:
        (stores.root / "abort").write_bytes(b"")
    folder = stores.root / "consumequeue" / "TopicA" / "1"
    if gone == "queue":
        shutil.rmtree(folder)
    else:
        path = folder / f"{0:020d}"
        path.write_bytes(bytes(path.stat().st_size)) if killed else path.unlink()
    store = stores.start()
    assert store.report.scanned_from == 0
    assert (store.get_min_offset("TopicA", 1), store.get_max_offset("TopicA", 1)) == (0, 30)
    assert store.reader.get_message("TopicA", 1, 0, 1).message_count == 1
