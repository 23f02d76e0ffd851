"""The index: hashes, files to the byte, rolling, repair after a kill."""

import errno
import random

import pytest

from broker.common.java import string_hash
from broker.store.format.indexfile import decode_header, index_key_hash, key_hash
from broker.store.index.index_file import repair_slots
from broker.store.index.index_service import IndexService, next_name
from broker.store.logfile.disk import Disk
from tests.support.key_columns import key_columns


def prefix(topic):
    return string_hash(topic + "#") & 0xFFFFFFFF


def service(folder, slots=5, entries=5):
    index = IndexService(Disk(), str(folder), slots, entries)
    index.now_ms = lambda: 1_700_000_000_000
    return index


def test_key_hash_is_javas(rng):
    alphabet = "abcXYZ019-_ %" + "äж消😀\0\x7f"
    for _ in range(500):
        topic = "".join(rng.choices(alphabet, k=rng.randrange(1, 20)))
        key = "".join(rng.choices(alphabet, k=rng.randrange(1, 60)))
        assert key_hash(prefix(topic), key.encode()) == index_key_hash(topic, key)


def test_key_hash_of_every_byte_and_of_long_keys():
    for size in (1, 2, 1023, 1024, 1025, 5000):
        key = "".join(chr(n % 128) for n in range(size))
        assert key_hash(prefix("T"), key.encode()) == index_key_hash("T", key)


@pytest.mark.parametrize(
    ("topic", "key"), [("TopicA", "ArqA7mh"), ("TopicTest", "Ctyvxa9"), ("TopicA", "1kzvfgk")]
)
def test_the_hash_without_absolute_value_is_0(topic, key):
    assert key_hash(prefix(topic), key.encode()) == index_key_hash(topic, key)


def test_put_writes_the_bytes_of_the_worked_example(tmp_path):
    index = service(tmp_path)
    begin = 1_700_000_000_012
    times = {4096: 0, 4300: 1_500, 4500: 2_900, 4700: 61_000}
    for key, offset in (("key1", 4096), ("1kzvfgk", 4300), ("ArqA7mh", 4500), ("key1", 4700)):
        index.put_keys(prefix("TopicA"), [key.encode()], offset, begin + times[offset])
    index.flush_header()
    data = bytes(index.files[0].file.mapping)
    assert data[:40].hex() == (
        "0000018bcfe5680c0000018bcfe656540000000000001000000000000000125c0000000200000005"
    )
    assert data[40:60].hex() == "0000000300000000000000000000000000000004"
    assert data[60:].hex() == (
        "00" * 20
        + "2641fa8300000000000010000000000000000000"
        + "2641fa8300000000000010cc0000000100000001"
        + "0000000000000000000011940000000200000000"
        + "2641fa83000000000000125c0000003d00000002"
    )
    found, timestamp, offset = index.query(prefix("TopicA"), b"key1", 10, 0, 1 << 62)
    assert found == [4700, 4300, 4096]
    assert (timestamp, offset) == (begin + 61_000, 4700)
    index.close()


def test_vectors(vectors, tmp_path):
    """The puts give these files, the queries these offsets."""
    vector = vectors["index"]
    index = service(tmp_path, vector["slots"], vector["index_num"])
    for put in vector["puts"]:
        topic, _, key = put["key"].partition("#")
        index.put_keys(prefix(topic), [key.encode()], put["phy"], put["store_ts"])
    index.flush_header()
    assert [bytes(f.file.mapping).hex() for f in index.files] == [
        file["hex"] for file in vector["files"]
    ]
    for query in vector["queries"]:
        found, _, _ = index.query(
            prefix(query["topic"]),
            query["key"].encode(),
            query["max"],
            query["begin"],
            query["end"],
        )
        assert found == query["phy_offsets_in_found_order"], query
    index.close()


def test_a_full_file_rolls_within_a_message(tmp_path):
    index = service(tmp_path, 5, 4)
    full = []
    index.on_full = full.append
    index.put_keys(1, [b"a", b"b"], 100, 10_000)
    index.put_keys(1, [b"c", b"d"], 200, 12_000)
    index.flush_header()
    assert [f.count for f in index.files] == [4, 2]
    assert full == [index.files[0]]
    assert index.files[1].name > index.files[0].name
    first, second = (decode_header(f.file.mapping) for f in index.files)
    assert (first.end_physical_offset, second.begin_physical_offset) == (200, 200)
    for key, offset in ((b"a", 100), (b"d", 200)):
        assert index.query(1, key, 9, 0, 1 << 62)[0] == [offset]
    index.close()


@pytest.mark.parametrize("seed", range(6))
def test_a_batch_of_messages_is_indexed_as_they_are_one_by_one(tmp_path, seed):
    """From an empty file on, across files, and after a message that is indexed already."""
    rng = random.Random(seed)
    one, many = service(tmp_path / "one", 5, 12), service(tmp_path / "many", 5, 12)
    at, stored = 100, 10_000
    for _ in range(12):
        count = rng.randrange(1, 6)
        offsets = [at + 10 * number for number in range(count)]
        most = rng.choice((0, 0, 1, 2))
        keys = [[b"k%d" % rng.randrange(9)] * (most or rng.randrange(3)) for _ in offsets]
        many.put_batch([1] * count, offsets, key_columns(keys), [stored] * count)
        for offset, words in zip(offsets, keys, strict=True):
            one.put_keys(1, words, offset, stored)
        at += 10 * (count - rng.randrange(2))
        stored += rng.choice((0, 700, 5_000_000_000_000))
    for index in (one, many):
        index.flush_header()
    assert len(one.files) > 1
    assert [bytes(f.file.mapping) for f in one.files] == [bytes(f.file.mapping) for f in many.files]
    one.close()
    many.close()


def test_a_message_whose_roll_failed_is_completed_by_the_next_attempt(tmp_path, monkeypatch):
    index = service(tmp_path, 5, 4)
    index.put_keys(1, [b"a", b"b"], 100, 10_000)
    create = index.create_file

    def fail(header):
        raise OSError(errno.EIO, "the next file cannot be made")

    monkeypatch.setattr(index, "create_file", fail)
    with pytest.raises(OSError):
        index.put_keys(1, [b"c", b"d"], 200, 12_000)
    monkeypatch.setattr(index, "create_file", create)
    for _ in range(2):
        index.put_keys(1, [b"c", b"d"], 200, 12_000)
    for key in (b"c", b"d"):
        assert index.query(1, key, 9, 0, 1 << 62)[0] == [200]
    index.close()


def test_first_entry_of_a_rolled_file_is_late_as_javas_is(tmp_path):
    index = service(tmp_path, 5, 2)
    index.put_keys(1, [b"a"], 100, 10_000)
    index.put_keys(1, [b"b"], 200, 13_000)
    # 3 s behind the previous file's end, read against this file's begin.
    assert index.query(1, b"b", 9, 13_000, 13_500)[0] == []
    assert index.query(1, b"b", 9, 13_000, 16_000)[0] == [200]
    index.close()


def test_known_messages_are_not_put_again(tmp_path):
    index = service(tmp_path, 5, 20)
    for offset in (100, 200, 300, 100, 300, 200):
        index.put_keys(1, [b"k"], offset, 10_000)
    assert index.files[0].count == 4
    index.close()


def test_messages_of_a_full_file_are_not_put_into_the_next_one_again(tmp_path):
    """Dispatch restarts after a crash; a Java broker would index such messages twice."""
    index = service(tmp_path)
    messages = [(b"k%d" % n, 100 * n, 1_700_000_000_000) for n in range(6)]
    for key, offset, time in messages:
        index.put_keys(prefix("T"), [key], offset, time)
    index.drop_from(1)
    for key, offset, time in messages:
        index.put_keys(prefix("T"), [key], offset, time)
    for key, offset, _ in messages:
        assert index.query(prefix("T"), key, 10, 0, 1 << 62)[0] == [offset]
    index.close()


def test_no_key_is_hashed_beyond_the_file(tmp_path):
    index = service(tmp_path, 3, 100)
    keys = [b"k%d" % n for n in range(90)]
    index.put_keys(7, keys, 0, 5_000)
    for key in keys:
        assert 0 in index.query(7, key, 200, 0, 1 << 62)[0]
    index.close()


def test_put_messages_are_found_after_reopening(tmp_path):
    index = service(tmp_path, 5, 10)
    for n in range(30):
        index.put_keys(1, [b"k%d" % n], n * 100, 10_000 + n)
    index.close()
    again = service(tmp_path, 5, 10)
    again.load(sizes_are_default=False, crashed=False, notes=[])
    for n in range(30):
        assert again.query(1, b"k%d" % n, 9, 0, 1 << 62)[0] == [n * 100]
    again.put_keys(1, [b"more"], 3000, 11_000)
    assert again.query(1, b"more", 9, 0, 1 << 62)[0] == [3000]
    again.close()


def test_slots_past_the_header_are_relinked(tmp_path):
    """A kill within a batch: entries and slots are stored, the header is not."""
    index = service(tmp_path, 5, 50)
    for n in range(10):
        index.put_keys(1, [b"k%d" % n], n * 100, 10_000)
    index.flush_header()
    for n in range(10, 30):
        index.put_keys(1, [b"k%d" % (n % 10)], n * 100, 10_000)
    again = service(tmp_path, 5, 50)
    again.load(sizes_are_default=False, crashed=False, notes=[])
    assert again.files[0].count == 11
    assert repair_slots(again.files[0]) > 0
    for n in range(10):
        assert again.query(1, b"k%d" % n, 9, 0, 1 << 62)[0] == [n * 100]
    # Dispatch comes by again and puts the same entries at the same places.
    for n in range(10, 30):
        again.put_keys(1, [b"k%d" % (n % 10)], n * 100, 10_000)
    again.flush_header()
    index.flush_header()
    assert bytes(again.files[0].file.mapping) == bytes(index.files[0].file.mapping)
    assert repair_slots(again.files[0]) == 0
    index.close()
    again.close()


def test_strange_files_are_left_alone(tmp_path):
    (tmp_path / "notes").write_text("x")
    (tmp_path / "folder").mkdir()
    notes = []
    index = service(tmp_path)
    index.load(sizes_are_default=False, crashed=False, notes=notes)
    assert index.files == []
    assert len(notes) == 2


def test_expired_files_go_but_the_last_stays(tmp_path):
    index = service(tmp_path, 5, 2)
    for n in range(4):
        index.put_keys(1, [b"k"], n * 100, 10_000)
    assert len(index.files) == 4
    assert index.delete_expired(150) == 2
    assert index.delete_expired(10_000) == 1
    assert len(list(tmp_path.iterdir())) == 1
    index.close()


def test_an_expired_file_that_cannot_be_removed_goes_later(tmp_path, monkeypatch):
    index = service(tmp_path, 5, 2)
    for n in range(3):
        index.put_keys(1, [b"k"], n * 100, 10_000)

    def fail(path):
        raise OSError(5, "input/output error", path)

    with monkeypatch.context() as patch:
        patch.setattr(index.files[0].file.disk, "unlink", fail)
        with pytest.raises(OSError, match="input/output"):
            index.delete_expired(150)
    assert index.delete_expired(150) == 2
    assert len(list(tmp_path.iterdir())) == 1
    index.close()


# --- names ----------------------------------------------------------------------------------------


def test_a_file_name_follows_the_last_one_with_any_clock(tmp_path):
    """One reading of the clock and one step, not a search: 4 hours back cost 100 s."""
    index = service(tmp_path, entries=2)
    readings = []

    def clock():
        readings.append(1_700_000_000_000 - 4 * 3_600_000 * len(readings))
        return readings[-1]

    index.now_ms = clock
    for number in range(4):
        index.put_keys(prefix("TopicA"), [b"key"], 100 * number + 100, 1_700_000_000_000)
    names = [file.name for file in index.files]
    assert names == sorted(set(names))
    assert len(readings) == len(names) == 4
    assert [int(name) - int(names[0]) for name in names] == [0, 1, 2, 3]
    index.close()


@pytest.mark.parametrize(
    ("last", "following"),
    [
        ("20991231235959999", "21000101000000000"),
        ("20990228235959999", "20990301000000000"),
        ("20991029025959999", "20991029030000000"),  # a local hour that may come twice
        ("99999999999999999", "999999999999999990"),
        ("20999999999999999", "209999999999999990"),
        ("2099111", "20991110"),
    ],
)
def test_a_name_later_than_the_clock_is_counted_on_from(last, following):
    assert next_name(last, 1_700_000_000_000) == following
    assert following > last


def test_a_name_before_the_clock_gives_way_to_it():
    name = next_name("20200101000000000", 1_700_000_000_123)
    assert len(name) == 17
    assert name.endswith("123")
    assert name > "2023"
    assert next_name("", 1_700_000_000_123) == name
