"""Message rows: fields, filters, forms of the body, inner batches."""

import base64
import zlib
from typing import Any

import msgspec
import pytest

from broker.common.sysflag import COMPRESSED, INNER_BATCH, NEED_UNWRAP
from broker.message.batch import encode_batch
from broker.message.message import Message
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.message_row import MessageRow, body_text

NOW = 1_700_000_000_000


def rows(store: Any, **conditions: Any) -> list[Any]:
    return list(message_rows(StoreDirectory(store.root), Query(**conditions)))


def numbers(store: Any, **conditions: Any) -> list[int]:
    places = [offset for offset, _ in store.places]
    return [places.index(row.physical_offset) for row in rows(store, **conditions)]


def test_a_row_contains_all_fields_of_a_message(made: Any) -> None:
    row = rows(made, body="text")[4]
    assert msgspec.to_builtins(row) == {
        "topic": "TopicA",
        "brokerName": None,
        "queueId": 0,
        "queueOffset": 1,
        "physicalOffset": made.places[4][0],
        "storeSize": made.places[4][1],
        "magic": "DAA320A7",
        "bodyCrc": zlib.crc32(b"body 4" + b"." * 94) & 0x7FFFFFFF,
        "crcOk": True,
        "flag": 0,
        "sysFlag": 0,
        "bornTimestamp": NOW + 3995,
        "bornHost": "10.1.2.3:54321",
        "storeTimestamp": NOW + 4000,
        "storeHost": "127.0.0.1:10911",
        "reconsumeTimes": 0,
        "preparedTransactionOffset": 0,
        "bodySize": 100,
        "body": "body 4" + "." * 94,
        "bodyEncoding": "utf-8",
        "tags": "TagA",
        "keys": ["key4"],
        "uniqKey": None,
        "offsetMsgId": f"7F00000100002A9F{made.places[4][0]:016X}",
        "properties": {"KEYS": "key4", "TAGS": "TagA"},
    }


def test_conditions_narrow_and_combine(made: Any) -> None:
    everything = list(range(40))
    at = [offset for offset, _ in made.places]
    assert numbers(made) == everything
    assert numbers(made, topic="TopicB") == [n for n in everything if n % 3 == 0]
    assert numbers(made, queue_id=1) == [n for n in everything if n % 2]
    assert numbers(made, topic="TopicB", queue_id=1) == [n for n in everything if n % 6 == 3]
    assert numbers(made, key="key7") == [7]
    assert numbers(made, key="key") == []
    assert numbers(made, from_offset=at[10], to_offset=at[12]) == [10, 11]
    assert numbers(made, from_offset=at[10] + 1, to_offset=at[12] + 1) == [11, 12]
    assert numbers(made, begin_ms=NOW + 5000, end_ms=NOW + 7000) == [5, 6]
    assert numbers(made, topic="nothing") == []
    assert numbers(made, begin_ms=NOW + 10**9) == []


def test_a_time_range_skips_files_that_are_hours_older(make_store: Any) -> None:
    store = make_store()
    for number in range(40):
        store.put(store_timestamp=NOW + number * 600_000)
    store.write()
    assert numbers(store, begin_ms=NOW + 30 * 600_000) == list(range(30, 40))


def test_corruption_outside_the_range_is_not_reported(made: Any) -> None:
    at = [offset for offset, _ in made.places]
    made.flip(at[2] + 4)
    made.flip(at[38] + 4)
    assert numbers(made, from_offset=at[10], to_offset=at[12]) == [10, 11]


def test_an_id_leads_to_one_message(made: Any) -> None:
    offset = made.places[9][0]
    assert numbers(made, id=f"7F00000100002A9F{offset:016X}") == [9]
    assert numbers(made, id=f"7f00000100002a9f{offset:016x}") == [9]
    assert numbers(made, id=f"7F00000100002A9F{offset + 1:016X}") == []
    assert numbers(made, id="no id") == []


def test_bodies_have_four_forms(make_store: Any) -> None:
    store = make_store()
    store.put(body="grün".encode())
    store.put(body=b"\xff\xfe")
    store.put(body=b"")
    store.write()
    shown = {form: [row.body for row in rows(store, body=form)] for form in ("none", "hex")}
    assert shown == {"none": [None, None, None], "hex": ["6772c3bc6e", "fffe", ""]}
    text = [(row.body, row.body_encoding) for row in rows(store, body="text")]
    assert text == [("grün", "utf-8"), ("fffe", "hex"), ("", "utf-8")]
    assert rows(store, body="base64")[0].body == base64.b64encode("grün".encode()).decode()
    assert body_text(b"a", "hex") == ("61", "hex")


def test_compressed_bodies_are_shown_as_they_were_sent(make_store: Any) -> None:
    store = make_store()
    packed = zlib.compress(b"hello " * 50)
    store.put(body=packed, sys_flag=COMPRESSED)
    store.write()
    (row,) = rows(store, body="text")
    assert row.body == "hello " * 50
    assert row.body_size == len(packed)
    (row,) = rows(store, body="hex", raw=True)
    assert row.body == packed.hex()


def test_a_body_that_cannot_be_decompressed_is_shown_as_stored(make_store: Any) -> None:
    store = make_store()
    store.put(body=b"no zlib", sys_flag=COMPRESSED)
    store.write()
    damage, row = rows(store, body="text")
    assert isinstance(damage, DamageRow)
    assert (damage.kind, damage.severity) == ("decompress", "warning")
    assert (row.body, row.body_encoding) == (b"no zlib".hex(), "hex")
    assert len(rows(store)) == 1  # the body was not requested


@pytest.fixture
def batched(make_store: Any) -> Any:
    store = make_store()
    store.put()
    items = [Message("TopicA", b"one", keys="k1"), Message("TopicA", b"two", keys="k2", tags="T")]
    store.put(
        body=encode_batch(items),
        sys_flag=INNER_BATCH | NEED_UNWRAP,
        queue_offset=6,
        properties={"INNER_NUM": "2", "INNER_BASE": "6", "KEYS": "outer"},
    )
    store.put()
    store.write()
    return store


def test_an_inner_batch_appears_as_its_messages(batched: Any) -> None:
    found = rows(batched, body="text")
    assert [row.queue_offset for row in found] == [0, 6, 7, 2]
    first, second = found[1:3]
    assert {first.physical_offset, second.physical_offset} == {batched.places[1][0]}
    assert (first.body, second.body, second.tags) == ("one", "two", "T")
    assert (first.keys, second.keys) == (["k1"], ["k2"])
    assert first.sys_flag == INNER_BATCH | NEED_UNWRAP
    assert first.store_size == batched.places[1][1]


def test_keys_are_looked_for_within_inner_batches(batched: Any) -> None:
    assert [row.body for row in rows(batched, key="k2", body="text")] == ["two"]
    assert [row.body for row in rows(batched, key="outer", body="text")] == ["one", "two"]


def test_a_broken_inner_batch_is_shown_whole(make_store: Any) -> None:
    store = make_store()
    store.put(body=b"\0\0\0\x63broken", sys_flag=INNER_BATCH)
    store.write()
    damage, row = rows(store)
    assert isinstance(damage, DamageRow)
    assert isinstance(row, MessageRow)
