"""The scan of the log at recovery: damaged regions are exact, and progress is logged."""

import logging
import shutil
from itertools import pairwise

import pytest

from broker.errors import StoreError
from broker.message.record import scan_records
from broker.store.recovery import log_scan, progress

MESSAGES = 30
MAGIC = b"\xda\xa3\x20\xa7"
STORE_TIMESTAMP_AT = 56


def test_a_long_recovery_is_heard_of(stores, inner, monkeypatch, caplog):
    store = stores.start()
    for number in range(40):
        store.put_message(inner(body=b"%04d" % number * 150))
    stores.close(store)
    (stores.root / "abort").write_bytes(b"")
    monkeypatch.setattr(progress, "NOTE_SECONDS", 0)
    monkeypatch.setattr(log_scan, "PAGE_OUT_BYTES", 2048)
    with caplog.at_level(logging.INFO):
        stores.start()
    assert any(
        "reading the log: " in message and "s left" in message for message in caplog.messages
    )


@pytest.fixture
def killed(stores, inner):
    """Thirty flushed messages in log files of 4096 bytes; the broker was killed afterwards."""
    store = stores.start()
    places = [
        store.put_message(inner(body=b"%03d" % number + MAGIC * 60)) for number in range(MESSAGES)
    ]
    assert store.flush()
    stores.kill(store)
    # Without them the whole log is read.
    (stores.root / "queueEnds.json").unlink()
    (stores.root / "checkpoint").unlink(missing_ok=True)
    return [(place.physical_offset, place.physical_end) for place in places]


def log_file(stores, physical_offset):
    start = physical_offset - physical_offset % 4096
    return stores.root / "commitlog" / f"{start:020d}", physical_offset - start


def overwrite(stores, physical_offset, data):
    path, at = log_file(stores, physical_offset)
    whole = bytearray(path.read_bytes())
    whole[at : at + len(data)] = data
    path.write_bytes(whole)


def readable(store):
    """Numbers of the messages that consumers get."""
    found = store.get_message("TopicA", 0, 0, MESSAGES)
    numbers = []
    while found.buffers:
        records = scan_records(b"".join(map(bytes, found.buffers)))
        numbers += [int(message.body[:3]) for message in records]
        found = store.get_message("TopicA", 0, found.next_begin_offset, MESSAGES)
    return numbers


@pytest.mark.parametrize("number", [4, 11, 28])
@pytest.mark.parametrize(
    ("at", "data"),
    [(0, b"\0\0\0\1"), (4, b"\0\0\0\0"), (4, b"\xcb\xd4\x31\x94"), (90, b"\xff")],
    ids=["size", "magic", "blank", "body"],
)
def test_the_damaged_region_is_exactly_the_damaged_record(stores, killed, number, at, data):
    """Bodies full of magic codes must not end the search for the next record early."""
    start, end = killed[number]
    overwrite(stores, start + at, data)
    store = stores.start()
    # The length of an intact header is used; otherwise the region ends at the next record.
    assert store.reader.damaged == [(start, end if at == 90 else killed[number + 1][0])]
    assert readable(store) == [n for n in range(MESSAGES) if n != number]


def test_a_blank_record_with_a_wrong_length_does_not_end_the_log(stores, killed):
    """The region extends to the next file, which continues the log."""
    last = next(n for n in range(MESSAGES) if killed[n + 1][0] >= 4096)
    overwrite(stores, killed[last][1], b"\0\0\0\x09")
    store = stores.start()
    assert store.reader.damaged == [(killed[last][1], 4096)]
    assert "blank record" in store.report.damaged_regions[0].reason
    assert readable(store) == list(range(MESSAGES))


def test_neighbouring_damaged_records_are_one_region_each(stores, killed):
    for number in (4, 5, 9):
        overwrite(stores, killed[number][0] + 4, b"\0\0\0\0")
    store = stores.start()
    lost = {n for start, end in store.reader.damaged for n in range(MESSAGES)
            if start <= killed[n][0] < end}  # fmt: skip
    assert lost == {4, 5, 9}
    assert readable(store) == [n for n in range(MESSAGES) if n not in lost]


def test_a_missing_file_is_damaged_up_to_the_start_of_the_next_one(stores, killed):
    path, _ = log_file(stores, 4096)
    path.unlink()
    store = stores.start()
    assert store.reader.damaged == [(4096, 8192)]
    assert readable(store) == [n for n in range(MESSAGES) if not 4096 <= killed[n][0] < 8192]


def test_a_torn_last_record_ends_the_log_and_is_not_damage(stores, killed, inner):
    """Nothing follows it and no unit refers to it: it was never acknowledged."""
    start, _ = killed[-1]
    path, at = log_file(stores, start)
    whole = bytearray(path.read_bytes())
    whole[at + 40 :] = bytes(len(whole) - at - 40)
    path.write_bytes(whole)
    for queue_file in (stores.root / "consumequeue" / "TopicA" / "0").iterdir():
        first = int(queue_file.name) // 20
        if first <= MESSAGES - 1 < first + 20:
            data = bytearray(queue_file.read_bytes())
            position = (MESSAGES - 1 - first) * 20
            data[position : position + 20] = bytes(20)
            queue_file.write_bytes(data)
    store = stores.start()
    assert store.reader.damaged == []
    assert store.max_physical_offset == start
    assert readable(store) == list(range(MESSAGES - 1))
    assert store.put_message(inner()).physical_offset == start


@pytest.fixture
def long_properties(stores, inner):
    """Thirty messages with about 1,300 bytes of properties; places of the properties in the log."""
    store = stores.start()
    places = []
    for number in range(MESSAGES):
        message = inner(body=b"%03d" % number, properties={"KEYS": f"k{number}", "a": "x" * 1300})
        places.append(store.put_message(message).physical_offset)
    assert store.flush()
    stores.kill(store)
    return places


def lose_sector(stores, number, places, *, sector):
    """Zero the part of one message's properties in a sector: 0 the first one, -1 the last one."""
    path, at = log_file(stores, places[number])
    data = bytearray(path.read_bytes())
    end = at + int.from_bytes(data[at : at + 4], "big")
    begin = data.index(b"KEYS\x01", at)
    bounds = [begin, *range(begin - begin % 512 + 512, end, 512), end]
    start, stop = list(pairwise(bounds))[sector]
    data[start:stop] = bytes(stop - start)
    path.write_bytes(data)


@pytest.mark.parametrize("sector", [0, 1, -1], ids=["first", "middle", "last"])
def test_a_power_failure_hides_records_with_a_lost_sector(stores, long_properties, sector):
    """bodyCRC does not cover the properties: the message would be delivered without them."""
    lose_sector(stores, 7, long_properties, sector=sector)
    (stores.root / "abort").write_bytes(b"1\n")  # no boot ID: a power failure is possible
    store = stores.start()
    assert [start for start, _ in store.reader.damaged] == [long_properties[7]]
    assert readable(store) == [n for n in range(MESSAGES) if n != 7]


def test_a_power_failure_ends_the_log_before_a_last_record_with_a_lost_sector(
    stores, long_properties
):
    lose_sector(stores, MESSAGES - 1, long_properties, sector=-1)
    (stores.root / "abort").write_bytes(b"1\n")
    store = stores.start()
    assert store.max_physical_offset == long_properties[-1]
    assert not store.reader.damaged
    assert readable(store) == list(range(MESSAGES - 1))


@pytest.fixture(params=[1 << 60, 0], ids=["plain", "vectorized"])
def way(request, monkeypatch):
    """Either variant of the scan."""
    if request.param == 0:
        pytest.importorskip("numba", reason="the fast path needs the extra 'fast'")
    monkeypatch.setattr(log_scan.LogScan, "vectorized_from_bytes", request.param)


@pytest.mark.parametrize("follows", [False, True], ids=["nothing follows", "an older one follows"])
@pytest.mark.usefixtures("way")
def test_a_record_dropped_by_recovery_stays_away_after_a_clean_stop(stores, inner, follows):
    """The start after a clean stop checks less: it took the record for a stored message."""
    store = stores.start()
    messages = [
        inner(body=b"%03d" % number, properties={"KEYS": f"k{number}", "a": "x" * 800})
        for number in range(12)
    ]
    places = [store.put_message(message).physical_offset for message in messages]
    assert store.flush()
    stores.kill(store)
    dropped = len(places) - 2
    assert places[dropped] % 4096, "the record before it is in the same file"
    lose_sector(stores, dropped, places, sector=-1)
    if follows:  # complete, but older than the record before: a remnant from before a truncation
        overwrite(stores, places[dropped + 1] + STORE_TIMESTAMP_AT, bytes(7) + b"\1")
    else:
        overwrite(stores, places[dropped + 1], bytes(4096 - places[dropped + 1] % 4096))
    (stores.root / "abort").write_bytes(b"1\n")
    store = stores.start()
    assert store.max_physical_offset == places[dropped]
    for _ in range(2):
        store = stores.reopen(store)
        assert store.max_physical_offset == places[dropped]
        assert readable(store) == list(range(dropped))
        assert store.get_max_offset("TopicA", 0) == dropped
    # Now the remnant starts where the log ends.
    assert store.put_message(messages[dropped]).physical_offset == places[dropped]
    stores.kill(store)
    assert readable(stores.start()) == list(range(dropped + 1))


@pytest.mark.usefixtures("way")
def test_only_stored_bytes_past_the_end_are_erased(stores, long_properties):
    """A log file of a gigabyte with one incomplete record costs the writes of that record."""
    lose_sector(stores, MESSAGES - 1, long_properties, sector=-1)
    (stores.root / "abort").write_bytes(b"1\n")
    path, at = log_file(stores, long_properties[-1])
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(at + (size - at) // 2)  # the rest becomes a hole
        file.truncate(size)
    store = stores.load()
    assert not any(path.read_bytes()[at:])
    assert store.max_physical_offset == long_properties[-1]


def test_zeros_in_properties_that_were_stored_are_delivered(stores, inner):
    """They end a value, but do not fill the part of a sector."""
    store = stores.start()
    for number in range(MESSAGES):
        store.put_message(inner(body=b"%03d" % number, properties={"a": "x" + 50 * "\0"}))
    assert store.flush()
    stores.kill(store)
    (stores.root / "abort").write_bytes(b"1\n")
    assert readable(stores.start()) == list(range(MESSAGES))


OWN_OFFSET_AT = 28


@pytest.mark.parametrize("number", [0, 4, 11, MESSAGES - 1])
@pytest.mark.parametrize("crash", ["killed", "stopped", "queues lost"])
def test_a_record_with_a_wrong_physical_offset_is_hidden_and_reported(
    stores, killed, inner, number, crash
):
    """Its queue offset stays taken: a group that has consumed it misses no later message."""
    start, end = killed[number]
    overwrite(stores, start + OWN_OFFSET_AT + 6, b"\x55")
    if crash == "stopped":
        (stores.root / "abort").unlink()
    elif crash == "queues lost":
        shutil.rmtree(stores.root / "consumequeue")
    store = stores.start()
    assert store.reader.damaged == [(start, end)]
    ((damage),) = store.report.damaged_regions
    assert (damage.physical_offset, damage.length) == (start, end - start)
    assert damage.reason == "wrong physical offset in the record"
    assert readable(store) == [n for n in range(MESSAGES) if n != number]
    assert store.get_max_offset("TopicA", 0) == MESSAGES
    assert store.put_message(inner()).queue_offset == MESSAGES


def test_a_wrong_physical_offset_ends_the_log_if_sectors_may_be_missing(stores, killed):
    start, _ = killed[-1]
    overwrite(stores, start + OWN_OFFSET_AT, bytes(8))
    shutil.rmtree(stores.root / "consumequeue")
    (stores.root / "abort").write_bytes(b"")
    store = stores.start()
    assert store.max_physical_offset == start
    assert readable(store) == list(range(MESSAGES - 1))


@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("number", [1, -1])
def test_a_log_file_renamed_to_a_place_past_the_end_is_not_removed(
    stores, killed, crashed: bool, number: int
):
    folder = stores.root / "commitlog"
    if not crashed:
        stores.close(stores.start())
    path = sorted(path for path in folder.iterdir() if any(path.read_bytes()))[number]
    moved = path.rename(folder / f"{1 << 40:020d}")
    with pytest.raises(StoreError, match=rf"records are those of physical offset {int(path.name)}"):
        stores.load()
    moved.rename(path)
    assert readable(stores.start()) == list(range(MESSAGES))


def test_a_renamed_log_file_is_refused_and_left_unchanged(stores, killed):
    """All of its records have another physical offset: none may be hidden or removed."""
    folder = stores.root / "commitlog"
    names = sorted(path.name for path in folder.iterdir())
    first, other = ((folder / name).read_bytes() for name in names[:2])
    (folder / names[0]).write_bytes(other)
    (stores.root / "abort").write_bytes(b"")
    with pytest.raises(StoreError, match=r"its records are those of physical offset 4096") as error:
        stores.load()
    assert error.value.path == str(folder / names[0])
    assert (folder / names[0]).read_bytes() == other
    assert sorted(path.name for path in folder.iterdir()) == names
    (folder / names[0]).write_bytes(first)
    assert readable(stores.start()) == list(range(MESSAGES))
