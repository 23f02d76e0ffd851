"""The texts that `scan` compares agree with the declarations of the plain path."""

import pytest

pytest.importorskip("numpy", reason="ingest needs the extra 'fast'")

from broker.server.ingest import fields
from broker.server.processor.send import send_target


def test_the_short_names_are_those_that_the_send_processor_reads() -> None:
    read = {"topic": send_target.TOPIC, "queue_id": send_target.QUEUE_ID}
    read |= {"properties": send_target.PROPERTIES, "batch": send_target.BATCH}
    for field, name in read.items():
        assert fields.SHORT_NAMES[fields.field_number(field)] == name.encode()


def test_long_names_are_those_that_the_send_processor_translates() -> None:
    translated = {
        long.decode(): short.decode()
        for long, short in zip(fields.LONG_NAMES, fields.SHORT_NAMES, strict=True)
    }
    assert translated == send_target.SHORT_NAMES


def test_special_names_are_special_for_the_plain_path_too() -> None:
    for name in fields.SPECIAL_NAMES:
        assert send_target.is_special((name + b"\x01value\x02").decode())
    assert send_target.is_special(fields.TIMER_START.decode())


def test_names_become_rows_of_equal_length() -> None:
    table, lengths = fields.name_table((b"ab", b"c"))
    assert table.tolist() == [[97, 98], [99, 0]]
    assert lengths.tolist() == [2, 1]
