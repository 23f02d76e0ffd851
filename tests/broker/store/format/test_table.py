"""Layouts: sizes, offsets and structs from one table."""

import pytest

from broker.store.format.commitlog import RECORD
from broker.store.format.table import Layout, rows

LAYOUT = Layout(
    name="sample",
    title="Sample",
    fields=rows(
        ("size", "int", 4, "length"),
        ("magic", "uint", 4, "magic"),
        ("time", "long", 8, "time", "5.0"),
        ("name", "text", 0, "name"),
        ("tail", "short", 2, "tail"),
    ),
)


def test_size_and_offsets_reach_to_the_first_variable_field() -> None:
    assert LAYOUT.size == 16
    assert [LAYOUT.offset(name) for name in ("size", "magic", "time", "name")] == [0, 4, 8, 16]
    for name in ("tail", "nothing"):
        with pytest.raises(KeyError):
            LAYOUT.offset(name)


def test_a_packer_skips_unnamed_fields() -> None:
    data = LAYOUT.packer().pack(1, 0xDAA320A7, -2)
    assert LAYOUT.packer().unpack(data) == (1, 0xDAA320A7, -2)
    assert LAYOUT.packer("magic").unpack_from(data) == (0xDAA320A7,)
    assert LAYOUT.packer("size", "time").unpack_from(data) == (1, -2)
    with pytest.raises(KeyError):
        LAYOUT.packer("size", "tail")


def test_since_is_kept() -> None:
    assert LAYOUT.fields[2].since == "5.0"


def test_the_record_has_the_offsets_that_readers_rely_on() -> None:
    assert RECORD.offset("storeTimestamp") == 56
    assert RECORD.offset("preparedTransactionOffset") == 76
    assert RECORD.size == 88
