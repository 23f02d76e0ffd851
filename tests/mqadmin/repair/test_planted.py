"""Damage planted from a seed: found, repaired into a copy, and nothing lost outside of it.

Corruption covered by a checksum or by another file must always be found. The rest is listed in
UNCOVERED: there the only law is that nothing else suffers.
"""

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.inspector.verify.verifier import VerifyOptions, verify
from mqadmin.repair.recover import recover
from mqadmin.repair.store_repair import make_plan, repair

LOG_FILE = 65536
BASES = ("normal-stop-533", "normal-stop-498")
UNIT = struct.Struct(">qiq")

Extent = tuple[int, int]


class Case(NamedTuple):
    """A corruption: the extents of the log that it touched, and whether it must be found."""

    extents: list[Extent]
    covered: bool
    description: str


def log_path(root: Path, physical_offset: int) -> tuple[Path, int]:
    start = physical_offset // LOG_FILE * LOG_FILE
    return root / "commitlog" / f"{start:020d}", physical_offset - start


def poke(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def flip(path: Path, at: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


def known_topics(root: Path) -> set[bytes]:
    """Topics with ConsumeQueues; a deleted one may leave an empty folder."""
    return {path.parent.parent.name.encode() for path in (root / "consumequeue").rglob("0*0")}


def fields_of(kept: Any) -> dict[str, tuple[int, int]]:
    """Field -> (position within the record, length)."""
    record = kept.record
    body = record.body_position - record.position
    topic = body + record.body_length
    properties = record.total_size - len(record.properties)
    found = {
        "totalSize": (0, 4),
        "magicCode": (4, 4),
        "bodyCRC": (8, 4),
        "queueId": (12, 4),
        "flag": (16, 4),
        "queueOffset": (20, 8),
        "physicalOffset": (28, 8),
        "sysFlag": (39, 1),
        "bornTimestamp": (40, 8),
        "bornHost": (48, 8),
        "storeTimestamp": (56, 8),
        "storeHost": (64, 8),
        "reconsumeTimes": (72, 4),
        "preparedTransactionOffset": (76, 8),
        "bodyLength": (84, 4),
        "body": (body, record.body_length),
        "topicLength": (topic, 1),
        "topic": (topic + 1, len(record.topic)),
        "propertiesLength": (properties - 2, 2),
    }
    for name in (b"TAGS\x01", b"KEYS\x01", b"UNIQ_KEY\x01"):
        at = record.properties.rfind(name)  # of two equal names the last counts
        if at >= 0 and (at == 0 or record.properties[at - 1] == 2):
            end = record.properties.find(b"\x02", at)
            end = len(record.properties) if end < 0 else end
            start = properties + at + len(name)
            found[name[:-1].decode()] = (start, properties + end - start)
    return found


# Neither a checksum nor another file repeats these.
UNCOVERED = {
    "flag",
    "bornTimestamp",
    "bornHost",
    "storeHost",
    "reconsumeTimes",
    "preparedTransactionOffset",
}
# Bits of sysFlag that another file or the record's own length repeats: prepared, IPv6 addresses.
# Bit 3 alone turns a plain message into a committed one without a half message: retries write such.
TELLING_BITS = (2, 4, 5)
FIELDS = [
    *("totalSize", "magicCode", "bodyCRC", "queueId", "flag", "queueOffset", "physicalOffset"),
    *("sysFlag", "bornTimestamp", "bornHost", "storeTimestamp", "storeHost", "reconsumeTimes"),
    *("preparedTransactionOffset", "bodyLength", "body", "topicLength", "topic"),
    *("propertiesLength", "TAGS", "KEYS", "UNIQ_KEY"),
]


def flip_field(name: str) -> Callable[..., Case]:
    def plant(root: Path, kept: list[Any], rng: random.Random) -> Case:
        # Records of the deleted topic have neither units nor another source.
        known = known_topics(root)
        fit = [
            item
            for item in kept
            if item.topic in known
            and fields_of(item).get(name, (0, 0))[1] > 0
            and item.record.body_length > 0
        ]
        item = rng.choice(fit)
        at, length = fields_of(item)[name]
        byte, bit = rng.randrange(length), rng.randrange(8)
        covered = name not in UNCOVERED
        if name == "sysFlag":
            bit = rng.choice(TELLING_BITS)
        if name == "storeTimestamp":
            # Weeks and more; less may be the second of the producer.
            byte, bit = rng.randrange(3, 5), rng.randrange(8)
        path, position = log_path(root, item.start)
        flip(path, position + at + byte, bit)
        description = f"bit {bit} of byte {byte} of {name} of the record at {item.start}"
        return Case([(item.start, item.end)], covered, description)

    plant.__name__ = f"flip-{name}"
    return plant


def cut_log(where: str) -> Callable[..., Case]:
    def plant(root: Path, kept: list[Any], rng: random.Random) -> Case:
        last_start = max(item.start for item in kept) // LOG_FILE * LOG_FILE
        inside = [item for item in kept if item.start >= last_start]
        item = rng.choice(inside[1:])
        fields = fields_of(item)
        at = {
            "boundary": 0,
            "size": 3,
            "header": 50,
            "body": fields["body"][0] + fields["body"][1] // 2,
            "topic": fields["topic"][0] + 1,
            "properties": item.end - item.start - 2,
            "last": item.end - item.start - 1,
        }[where]
        path, position = log_path(root, item.start)
        with path.open("r+b") as file:
            file.truncate(position + at)
        return Case([(item.start, 1 << 40)], True, f"{path.name} cut at {position + at} ({where})")

    plant.__name__ = f"cut-{where}"
    return plant


def zero_page(root: Path, kept: list[Any], rng: random.Random) -> Case:
    # The rest of a file after its blank record is zeros already.
    touched_pages = sorted({at // 4096 for item in kept for at in (item.start, item.end - 1)})
    at = rng.choice(touched_pages[:-1]) * 4096
    path, position = log_path(root, at)
    poke(path, position, bytes(4096))
    return Case([(at, at + 4096)], True, f"page at {at} zeroed")


def zero_queue_file(root: Path, kept: list[Any], rng: random.Random) -> Case:
    path = rng.choice(sorted((root / "consumequeue").rglob("0*0")))
    path.write_bytes(bytes(path.stat().st_size))
    return Case([], True, f"{path} zeroed")


def zero_index_part(root: Path, kept: list[Any], rng: random.Random) -> Case:
    path = rng.choice(sorted((root / "index").iterdir())[:-1])
    at = 200 + 20 * rng.randrange(5, 140)
    poke(path, at, bytes(40))
    return Case([], True, f"{path.name} zeroed at {at}")


def flip_unit(root: Path, kept: list[Any], rng: random.Random) -> Case:
    folder = root / "consumequeue" / "OrdersA" / str(rng.randrange(4))
    path = rng.choice(sorted(folder.iterdir()))
    units = len(path.read_bytes().rstrip(b"\0")) // 20
    at, bit = rng.randrange(units * 20), rng.randrange(8)
    flip(path, at, bit)
    return Case([], True, f"bit {bit} of {path} at {at}")


def cut_queue_file(root: Path, kept: list[Any], rng: random.Random) -> Case:
    path = rng.choice(sorted((root / "consumequeue" / "OrdersA").rglob("0*0")))
    size = rng.choice([0, 13, 20, 500])
    with path.open("r+b") as file:
        file.truncate(size)
    return Case([], True, f"{path} cut to {size}")


def cut_index(root: Path, kept: list[Any], rng: random.Random) -> Case:
    path = rng.choice(sorted((root / "index").iterdir())[:-1])
    size = rng.choice([0, 39, 100, 200, 1000, 3000])
    with path.open("r+b") as file:
        file.truncate(size)
    return Case([], True, f"{path.name} cut to {size}")


def flip_index(root: Path, kept: list[Any], rng: random.Random) -> Case:
    path = rng.choice(sorted((root / "index").iterdir())[:-1])
    at = rng.choice([rng.randrange(0, 24), rng.randrange(36, 40), 220 + rng.randrange(20 * 140)])
    bit = rng.randrange(8)
    flip(path, at, bit)
    return Case([], True, f"bit {bit} of {path.name} at {at}")


def loop_index(root: Path, kept: list[Any], rng: random.Random) -> Case:
    path = rng.choice(sorted((root / "index").iterdir())[:-1])
    number = rng.randrange(2, 140)
    target = rng.choice([number, rng.randrange(number, 149)])
    poke(path, 200 + 20 * number + 16, struct.pack(">i", target))
    return Case([], True, f"entry {number} of {path.name} leads to {target}")


def swap_log(root: Path, kept: list[Any], rng: random.Random) -> Case:
    one, two = rng.sample(sorted((root / "commitlog").iterdir()), 2)
    other = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(other)
    return Case([], True, f"{one.name} and {two.name} swapped")


def double_log(root: Path, kept: list[Any], rng: random.Random) -> Case:
    names = sorted((root / "commitlog").iterdir())
    path = rng.choice(names)
    copy = names[-1].with_name(f"{int(names[-1].name) + LOG_FILE:020d}")
    copy.write_bytes(path.read_bytes())
    return Case([], True, f"{path.name} once more as {copy.name}")


def lose_log(root: Path, kept: list[Any], rng: random.Random) -> Case:
    path = rng.choice(sorted((root / "commitlog").iterdir())[1:-1])
    path.unlink()
    start = int(path.name)
    return Case([(start, start + LOG_FILE)], True, f"{path.name} missing")


def swap_queue_files(root: Path, kept: list[Any], rng: random.Random) -> Case:
    one, two = sorted((root / "consumequeue" / "OrdersA" / str(rng.randrange(4))).iterdir())[:2]
    other = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(other)
    return Case([], True, f"{one} and {two.name} swapped")


def lose_queue_file(root: Path, kept: list[Any], rng: random.Random) -> Case:
    path = rng.choice(sorted((root / "consumequeue" / "OrdersA").rglob("0*0")))
    path.unlink()
    return Case([], True, f"{path} missing")


def lose_index(root: Path, kept: list[Any], rng: random.Random) -> Case:
    path = rng.choice(sorted((root / "index").iterdir()))
    path.unlink()
    return Case([], True, f"{path.name} missing")


def double_index(root: Path, kept: list[Any], rng: random.Random) -> Case:
    path = rng.choice(sorted((root / "index").iterdir()))
    path.with_name("20991231000000000").write_bytes(path.read_bytes())
    return Case([], True, f"{path.name} twice")


PLANTS = [
    *(flip_field(name) for name in FIELDS),
    *(cut_log(w) for w in ("boundary", "size", "header", "body", "topic", "properties", "last")),
    *(zero_page, zero_queue_file, zero_index_part, flip_unit, cut_queue_file, cut_index),
    *(flip_index, loop_index, swap_log, double_log, lose_log, swap_queue_files),
    *(lose_queue_file, lose_index, double_index),
]


def touched(item: Any, extents: list[Extent]) -> bool:
    return any(begin < item.end and item.start < end for begin, end in extents)


def unit_of(root: Path, item: Any) -> tuple[int, int, int] | None:
    folder = root / "consumequeue" / item.topic.decode() / str(item.queue_id)
    at = item.queue_offset * 20
    path = folder / f"{at // 600 * 600:020d}"
    if not path.exists():
        return None
    return UNIT.unpack_from(path.read_bytes(), at % 600)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
@pytest.mark.parametrize("round_", [0, 1])
def test_planted_corruption_is_found_and_loses_only_the_records_it_touches(
    base_store, kept, fingerprint, rng: random.Random, tmp_path: Path, plant: Any, round_: int
) -> None:
    root = base_store(BASES[round_])
    good = kept(root)
    topics = known_topics(root)
    case = plant(root, good, rng)
    print(case.description)
    before = fingerprint(root)

    found = verify(StoreDirectory(root), VerifyOptions())
    if case.covered:
        assert not found.summary.ok, case.description
    if has_columns():
        plain = verify(StoreDirectory(root), VerifyOptions(columns=False))
        assert sorted(plain.findings, key=repr) == sorted(found.findings, key=repr)

    result = repair(make_plan(StoreDirectory(root)), tmp_path / "repaired")
    assert result.ok, result.findings
    after = {item.start: item for item in kept(tmp_path / "repaired")}
    for item in good:
        if touched(item, case.extents):
            continue
        assert item.start in after, (case.description, item[:5])
        assert after[item.start].data == item.data
        unit = unit_of(tmp_path / "repaired", item)
        # Only messages of a topic that was deleted have no unit.
        if item.topic in topics:
            assert unit is not None
            assert unit[:2] == (item.start, item.end - item.start), (case.description, item[:5])

    rescued = recover([root])
    bodies = {row.data for row in rescued.records}
    for item in good:
        if not touched(item, case.extents):
            assert item.data in bodies, (case.description, item[:5])

    assert fingerprint(root) == before


def test_the_manual_names_the_fields_that_verification_cannot_check() -> None:
    text = (Path(__file__).parents[3] / "man" / "mqadmin-store.1").read_text("utf-8")
    section = text.partition("\n.SH LIMITS OF VERIFICATION\n")[2].partition("\n.SH ")[0]
    section = section.replace("\\-", "-")
    assert section
    assert not [name for name in (*UNCOVERED, "sysFlag", "storeTimestamp") if name not in section]
