"""Extension units: written before the units that refer to them, found again, never mistaken."""

import random
from pathlib import Path

import pytest

from broker.common.java import string_hash
from broker.message.record import scan_records
from broker.store.consumequeue.consume_queue_ext import NO_ADDRESS, ConsumeQueueExt
from broker.store.format.consumequeue import (
    ConsumeQueueExtUnit,
    ext_address,
    is_ext_address,
    scan_ext_units,
)
from broker.store.logfile.disk import Disk


@pytest.fixture
def ext(tmp_path: Path):
    """``ext()``: extension units in one folder with files of 200 bytes; closed at the end."""
    opened: list[ConsumeQueueExt] = []

    def make(last_address: int = NO_ADDRESS) -> ConsumeQueueExt:
        made = ConsumeQueueExt(Disk(), str(tmp_path / "ext"), 200)
        made.load(last_address, notes=[])
        opened.append(made)
        return made

    yield make
    for made in opened:
        made.close()


def unit(number: int, bits: bytes = b"") -> ConsumeQueueExtUnit:
    return ConsumeQueueExtUnit(number, 1_700_000_000_000 + number, bits)


def test_units_have_the_addresses_of_their_bytes(ext) -> None:
    units = ext()
    assert units.put(unit(1)) == ext_address(0)
    assert units.put(unit(2, bytes(14))) == ext_address(20)
    assert units.put(unit(3)) == ext_address(54)
    assert units.get(ext_address(20)) == unit(2, bytes(14))
    assert units.get(5) is None
    assert units.get(ext_address(74)) is None, "past the end"


def test_a_file_ends_with_minus_one_where_the_next_unit_does_not_fit(ext, tmp_path) -> None:
    units = ext()
    addresses = [units.put(unit(number, bytes(14))) for number in range(7)]
    assert addresses == [ext_address(34 * number) for number in range(5)] + [
        ext_address(200),
        ext_address(234),
    ]
    first = tmp_path / "ext" / f"{0:020d}"
    data = first.read_bytes()
    assert data[170:172] == b"\xff\xff"
    assert [found for _, found in scan_ext_units(data)] == [
        unit(number, bytes(14)) for number in range(5)
    ]


def test_after_a_restart_units_follow_the_last_one_in_use(ext) -> None:
    units = ext()
    addresses = [units.put(unit(number)) for number in range(12)]
    units.close()
    again = ext(20 * 4)
    assert again.get(addresses[4]) == unit(4)
    assert again.get(addresses[5]) is None, "no ConsumeQueue unit refers to it"
    assert again.put(unit(100)) == ext_address(100)
    assert again.get(addresses[4]) == unit(4)


def test_an_address_whose_unit_is_lost_is_not_used_again(ext, tmp_path) -> None:
    """A power cut left the ConsumeQueue unit, not the extension unit."""
    units = ext()
    lost = [units.put(unit(number)) for number in range(3)][2]
    units.close()
    path = tmp_path / "ext" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[40:60] = bytes(20)
    path.write_bytes(data)
    again = ext(40)
    assert again.get(lost) is None
    assert again.put(unit(9)) == ext_address(200)
    assert again.get(lost) is None
    assert again.get(ext_address(20)) == unit(1)


def test_files_before_the_first_unit_in_use_are_removed(ext, tmp_path) -> None:
    units = ext()
    addresses = [units.put(unit(number)) for number in range(30)]
    assert len(list((tmp_path / "ext").iterdir())) == 4
    assert units.delete_before(addresses[20]) == 2
    assert units.get(addresses[0]) is None
    assert units.get(addresses[20]) == unit(20)
    assert units.delete_before(7) == 0, "not an address"


def test_units_agree_with_a_dict(ext) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    units, known = ext(), {}
    last = NO_ADDRESS
    for number in range(400):
        if dice.random() < 0.02:
            units.close()
            units = ext(last)
        made = unit(number, dice.randbytes(dice.randrange(30)))
        code = units.put(made)
        known[code] = made
        last = code + (1 << 63)
        other = dice.choice(list(known))
        assert units.get(other) == known[other]


class TestStore:
    """A store with enableConsumeQueueExt."""

    @pytest.fixture
    def ext_store(self, stores):
        return stores.start(stores.config(enable_consume_queue_ext=True))

    def bodies(self, result):
        return [m.body for buffer in result.buffers for m in scan_records(buffer)]

    def test_every_unit_has_an_extension_unit(self, ext_store, inner) -> None:
        for tags in ("A", "B", ""):
            properties = {"TAGS": tags} if tags else {}
            ext_store.put_message(inner(body=tags.encode(), properties=properties))
        queue = ext_store.queue_table.find("TopicA", 0)
        raw = queue.read_raw(0, 3)
        assert [code for *_, code in raw] == [ext_address(20 * n) for n in range(3)]
        codes = [string_hash("A"), string_hash("B"), 0]
        assert [code for *_, code in queue.read(0, 3)] == codes
        assert queue.unit(1)[2] == codes[1]
        stamp = ext_store.clock.now_ms()
        assert queue.ext.get(raw[0][2]) == ConsumeQueueExtUnit(codes[0], stamp)

    def test_tag_filters_see_tags_codes(self, ext_store, inner) -> None:
        for tags in ("A", "B", "A"):
            ext_store.put_message(inner(body=tags.encode(), properties={"TAGS": tags}))
        wanted = {string_hash("A")}.__contains__
        found = ext_store.get_message("TopicA", 0, 0, matcher=wanted)
        assert self.bodies(found) == [b"A", b"A"]
        assert found.next_begin_offset == 3

    def test_bits_spare_reading_the_records(self, ext_store, inner) -> None:
        ext_store.reput.calculate_bit_map = lambda topic, raw: (
            b"\x01" if b"n\x011" in raw else b"\0"
        )
        for n in range(4):
            ext_store.put_message(inner(body=b"%d" % n, properties={"n": str(n % 2)}))
        read: list[bytes] = []

        def matches(raw: bytes) -> bool:
            read.append(raw)
            return b"n\x011" in raw

        found = ext_store.get_message(
            "TopicA",
            0,
            0,
            record_matcher=matches,
            ext_matcher=lambda unit: unit.bit_map == b"\x01",
        )
        assert self.bodies(found) == [b"1", b"3"]
        assert len(read) == 2
        assert found.next_begin_offset == 4

    @pytest.mark.parametrize("stop", ["close", "kill"])
    @pytest.mark.parametrize("enabled", [True, False])
    def test_they_survive_a_restart_with_and_without_the_setting(
        self, stores, ext_store, inner, stop, enabled
    ) -> None:
        for tags in ("A", "B"):
            ext_store.put_message(inner(body=tags.encode(), properties={"TAGS": tags}))
        getattr(stores, stop)(ext_store)
        store = stores.start(stores.config(enable_consume_queue_ext=enabled))
        store.put_message(inner(body=b"C", properties={"TAGS": "A"}))
        wanted = {string_hash("A")}.__contains__
        assert self.bodies(store.get_message("TopicA", 0, 0, matcher=wanted)) == [b"A", b"C"]
        raw = store.queue_table.find("TopicA", 0).read_raw(2, 1)
        assert is_ext_address(raw[0][2]) == enabled

    def test_a_lost_extension_unit_hides_no_message(self, stores, ext_store, inner) -> None:
        for tags in ("A", "B"):
            ext_store.put_message(inner(body=tags.encode(), properties={"TAGS": tags}))
        stores.close(ext_store)
        (file,) = (stores.root / "consumequeue_ext" / "TopicA" / "0").iterdir()
        data = bytearray(file.read_bytes())
        data[0:40] = bytes(40)
        file.write_bytes(data)
        store = stores.start(stores.config(enable_consume_queue_ext=True))
        wanted = {string_hash("A")}.__contains__
        assert self.bodies(store.get_message("TopicA", 0, 0, matcher=wanted)) == [b"A", b"B"], (
            "the client tests the tag again"
        )

    def test_a_deleted_topic_leaves_no_folder(self, stores, ext_store, inner) -> None:
        ext_store.put_message(inner())
        assert (stores.root / "consumequeue_ext" / "TopicA").exists()
        ext_store.delete_topics(["TopicA"])
        assert not (stores.root / "consumequeue_ext" / "TopicA").exists()

    def test_delayed_messages_keep_their_delivery_times(self, ext_store, inner) -> None:
        ext_store.put_message(
            inner(topic="SCHEDULE_TOPIC_XXXX", queue_id=2, properties={"DELAY": "3"})
        )
        (code,) = [
            unit[2] for unit in ext_store.queue_table.find("SCHEDULE_TOPIC_XXXX", 2).read_raw(0, 1)
        ]
        assert code == ext_store.clock.now_ms() + 10_000

    def test_without_space_the_tags_code_is_stored_itself(
        self, ext_store, inner, monkeypatch
    ) -> None:
        ext_store.put_message(inner())
        queue = ext_store.queue_table.find("TopicA", 0)

        def full(unit) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(type(queue.ext), "put", lambda self, unit: full(unit))
        ext_store.put_message(inner(body=b"x", properties={"TAGS": "A"}))
        assert queue.read_raw(1, 1)[0][2] == string_hash("A")
        assert self.bodies(ext_store.get_message("TopicA", 0, 1)) == [b"x"]
