"""Random damage to the files of a store directory: one change per call, described for the test.

Each function takes the directory and a seeded generator, so a seed repeats the damage::

    damage = damage_store(folder, random.Random(42))
    print(damage)                   # commitlog/00000000000000000000: queueOffset of 1234 is now 0
"""

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from broker.message.message import MessageExt
from broker.store.format.commitlog import LogRecord, file_name, file_start, scan_commitlog

# Fixed part of a record: name, position and bytes of each field.
RECORD_FIELDS = (
    ("totalSize", 0, 4),
    ("magicCode", 4, 4),
    ("bodyCRC", 8, 4),
    ("queueId", 12, 4),
    ("flag", 16, 4),
    ("queueOffset", 20, 8),
    ("physicalOffset", 28, 8),
    ("sysFlag", 36, 4),
    ("bornTimestamp", 40, 8),
    ("bornHost", 48, 8),
)
PAGE = 4096
# The units of a ConsumeQueue, BatchConsumeQueue, IndexFile, timerwheel and timerlog consist of
# such numbers.
NUMBER_BYTES = (4, 8)
UNUSUAL_NUMBERS = ("-1", str(1 << 62), str(1 << 70), "null", '"7"', "true", "[]", "{}", "1.5")
DERIVED = ("consumequeue", "batchconsumequeue", "index", "timerlog", "timerwheel", "checkpoint")


class StoreDamage(msgspec.Struct, frozen=True, kw_only=True):
    """One change: ``path`` is relative to the store, ``start`` and ``length`` are in its bytes.

    ``field`` and ``value`` are a changed field of a record and its new number, ``message`` is the
    record before the change.
    """

    path: str
    change: str
    start: int = 0
    length: int = 0
    field: str = ""
    value: int = 0
    message: MessageExt | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.change}"


def commitlog_files(root: Path) -> list[Path]:
    """The files of the CommitLog in the order of their names, empty ones included."""
    folder = root / "commitlog"
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in found if path.is_file() and file_start(path.name) is not None]


def stored_records(path: Path) -> list[LogRecord]:
    """The valid records of a CommitLog file."""
    found = scan_commitlog(path.read_bytes(), int(path.name))
    return [record for record in found if isinstance(record, LogRecord)]


def damage_store(root: Path, rng: random.Random) -> StoreDamage:
    """Change one file of the store; the CommitLog in half of all cases."""
    return rng.choice((damage_commitlog, damage_commitlog, damage_derived, damage_config))(
        root, rng
    )


def damage_commitlog(root: Path, rng: random.Random) -> StoreDamage:
    """Change one file of the CommitLog that has records."""
    used = [path for path in commitlog_files(root) if stored_records(path)]
    path = rng.choice(used)
    changes = (change_field, change_field, change_field, flip_bit_of_record, *FILE_CHANGES)
    return _apply(rng.choice((*changes, copy_under_later_name)), root, path, rng)


def damage_derived(root: Path, rng: random.Random) -> StoreDamage:
    """Change one ConsumeQueue, BatchConsumeQueue, IndexFile, timer file or the checkpoint."""
    kinds = [kind for kind in DERIVED if (root / kind).exists()]
    top = root / rng.choice(kinds)
    paths = [top] if top.is_file() else [path for path in top.rglob("*") if path.is_file()]
    if not paths:
        return damage_derived(root, rng)
    changes = (change_number, change_number, change_number, *FILE_CHANGES, put_directory)
    return _apply(rng.choice(changes), root, rng.choice(sorted(paths)), rng)


def damage_config(root: Path, rng: random.Random) -> StoreDamage:
    """Change one JSON file of config/, or its backup."""
    paths = sorted((root / "config").glob("*.json*"))
    changes = (
        replace_json_number,
        replace_json_number,
        replace_json_number,
        replace_by_empty_object,
        insert_nul_bytes,
        truncate,
        empty,
        remove,
        put_directory,
    )
    return _apply(rng.choice(changes), root, rng.choice(paths), rng)


def _apply(
    change: Callable[[Path, random.Random], StoreDamage],
    root: Path,
    path: Path,
    rng: random.Random,
) -> StoreDamage:
    damage = change(path, rng)
    return msgspec.structs.replace(damage, path=str(path.relative_to(root)))


def _overwrite(path: Path, start: int, data: bytes, change: str) -> StoreDamage:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(data)
    return StoreDamage(path=path.name, change=change, start=start, length=len(data))


def _changed_number(old: bytes, rng: random.Random) -> bytes:
    """0, -1, a random number of the same width, or one flipped bit."""
    width = len(old)
    flipped = int.from_bytes(old, "big") ^ 1 << rng.randrange(8 * width)
    value = rng.choice((0, (1 << 8 * width) - 1, rng.getrandbits(8 * width), flipped, flipped))
    return value.to_bytes(width, "big")


# ---- records


def change_field(path: Path, rng: random.Random) -> StoreDamage:
    """Replace a field of a record: 0, -1, a random number, or one flipped bit."""
    records = stored_records(path)
    record = rng.choice((records[0], records[-1], rng.choice(records)))
    field, position, width = rng.choice(RECORD_FIELDS)
    start = record.position + position
    new = _changed_number(path.read_bytes()[start : start + width], rng)
    change = f"{field} of the record at {record.position} is now {new.hex()}"
    damage = _overwrite(path, start, new, change)
    value = int.from_bytes(new, "big")
    return msgspec.structs.replace(damage, field=field, value=value, message=record.message)


def flip_bit_of_record(path: Path, rng: random.Random) -> StoreDamage:
    """Flip one bit past the fixed part of a record: hosts, body, topic or properties."""
    record = rng.choice(stored_records(path))
    start = record.position + rng.randrange(56, record.total_size)
    old = path.read_bytes()[start]
    change = f"a flipped bit at {start} in the record at {record.position}"
    return _overwrite(path, start, bytes((old ^ 1 << rng.randrange(8),)), change)


def copy_under_later_name(path: Path, rng: random.Random) -> StoreDamage:
    """Copy a CommitLog file past the end of the log."""
    last = max(path.parent.iterdir())
    name = file_name(int(last.name) + path.stat().st_size * rng.choice((1, 2, 5)))
    shutil.copy(path, path.with_name(name))
    return StoreDamage(path=path.name, change=f"copied to {name}")


# ---- files of every kind


def fill_page(path: Path, rng: random.Random) -> StoreDamage:
    """Overwrite a page, or its part that the file has, with zeros or garbage."""
    size = path.stat().st_size
    start = rng.randrange(max(size, 1)) // PAGE * PAGE
    length = min(PAGE, size - start)
    zeros = rng.random() < 0.5
    data = bytes(length) if zeros else rng.randbytes(length)
    change = f"{length} bytes of {'zeros' if zeros else 'garbage'} at {start}"
    return _overwrite(path, start, data, change)


def truncate(path: Path, rng: random.Random) -> StoreDamage:
    """Cut the file at any byte."""
    data = path.read_bytes()
    length = rng.randrange(max(len(data), 1))
    path.write_bytes(data[:length])
    change = f"truncated from {len(data)} to {length} bytes"
    return StoreDamage(path=path.name, change=change, start=length, length=len(data) - length)


def lengthen(path: Path, rng: random.Random) -> StoreDamage:
    """Append zeros or garbage."""
    length = rng.choice((1, 20, PAGE))
    with path.open("ab") as file:
        file.write(rng.choice((bytes(length), rng.randbytes(length))))
    return StoreDamage(path=path.name, change=f"lengthened by {length} bytes")


def empty(path: Path, rng: random.Random) -> StoreDamage:
    """Leave a file of no bytes."""
    length = path.stat().st_size
    path.write_bytes(b"")
    return StoreDamage(path=path.name, change="empty", length=length)


def swap(path: Path, rng: random.Random) -> StoreDamage:
    """Exchange the bytes of two files of one directory; the only file stays as it is."""
    other = rng.choice(sorted(entry for entry in path.parent.iterdir() if entry.is_file()))
    data, other_data = path.read_bytes(), other.read_bytes()
    path.write_bytes(other_data)
    other.write_bytes(data)
    return StoreDamage(path=path.name, change=f"swapped with {other.name}", length=len(data))


def remove(path: Path, rng: random.Random) -> StoreDamage:
    """Delete the file."""
    length = path.stat().st_size
    path.unlink()
    return StoreDamage(path=path.name, change="missing", length=length)


def rename(path: Path, rng: random.Random) -> StoreDamage:
    """Give the file a name that no other has."""
    start = file_start(path.name)
    length = path.stat().st_size
    starts = (start + 1, start + 9 * length, 1 << 40) if start is not None else ()
    names = [file_name(other) for other in starts] or [f"{path.name}.x"]
    name = rng.choice([name for name in names if not path.with_name(name).exists()])
    path.rename(path.with_name(name))
    return StoreDamage(path=path.name, change=f"renamed to {name}", length=length)


FILE_CHANGES = (fill_page, truncate, lengthen, empty, swap, remove, rename)


def put_directory(path: Path, rng: random.Random) -> StoreDamage:
    """Replace the file by a directory of its name."""
    length = path.stat().st_size
    path.unlink()
    path.mkdir()
    return StoreDamage(path=path.name, change="a directory in its place", length=length)


# ---- derived files


def change_number(path: Path, rng: random.Random) -> StoreDamage:
    """Replace 4 or 8 aligned bytes of the used part of a file of binary units."""
    used = len(path.read_bytes().rstrip(b"\0"))
    width = rng.choice(NUMBER_BYTES)
    start = rng.randrange(max(used - width, 1)) // 4 * 4
    new = _changed_number(path.read_bytes()[start : start + width].ljust(width, b"\0"), rng)
    return _overwrite(path, start, new, f"{width} bytes at {start} are now {new.hex()}")


# ---- JSON files


def replace_json_number(path: Path, rng: random.Random) -> StoreDamage:
    """Replace a number by an unusual one, or by a value of another type."""
    text = path.read_text()
    numbers = list(re.finditer(r"(?<![\w\"-])-?\d+(?![\w\"])", text))
    if not numbers:
        return replace_by_empty_object(path, rng)
    number, value = rng.choice(numbers), rng.choice(UNUSUAL_NUMBERS)
    path.write_text(text[: number.start()] + value + text[number.end() :])
    change = f"{number.group()} at {number.start()} is now {value}"
    return StoreDamage(path=path.name, change=change)


def replace_by_empty_object(path: Path, rng: random.Random) -> StoreDamage:
    """Leave an object without keys."""
    path.write_text(json.dumps({}))
    return StoreDamage(path=path.name, change="{}")


def insert_nul_bytes(path: Path, rng: random.Random) -> StoreDamage:
    """Insert NUL bytes anywhere, as a file system does after a power cut."""
    data = path.read_bytes()
    position = rng.randrange(len(data) + 1)
    path.write_bytes(data[:position] + bytes(7) + data[position:])
    return StoreDamage(path=path.name, change=f"7 NUL bytes at {position}")
