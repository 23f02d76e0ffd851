"""Batches: `scan` takes ordinary ones whole, one row per message, and leaves any other whole."""

import random
import struct

import pytest

pytest.importorskip("numba", reason="the compiled loops need the extra 'fast'")
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.message.batch import encode_batch
from broker.remoting.protocol.codes import RequestCode
from broker.server.processor.send.send import PARSED_AT_ONCE_BYTES
from tests.support.ingest_scan import check
from tests.support.send_frames import (
    batch_frame,
    hostile_batch,
    hostile_batches,
    hostile_items,
    items_of,
    raw_item,
    send_frame,
)

CODES = (RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_MESSAGE)


@pytest.mark.parametrize("rocketmq", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_every_ordinary_batch_is_taken(code: int, rocketmq: bool) -> None:
    sizes = (1, 4, 32)
    frames = [
        batch_frame(n, items_of(n, count), code=code, rocketmq=rocketmq)
        for n, count in enumerate(sizes)
    ]
    data = b"".join(frame + send_frame(9) for frame in frames)
    found = check(data)
    assert (found.count, found.position) == (sum(sizes) + 3, len(data))


@pytest.mark.parametrize(
    "fields",
    [
        {"m": "false"},
        {"m": "any text"},
        {"i": "UNIQ_KEY\x01k"},
        {"i": "WAIT\x01falsy\x02UNIQ_KEY\x01k\x02"},
        {"j": "7"},
        {"h": "-9"},
    ],
    ids=str,
)
def test_unusual_forms_of_ordinary_batches_are_taken(fields: dict[str, str]) -> None:
    assert check(batch_frame(1, **fields)).count == 4


@pytest.mark.parametrize("at", range(3))
def test_a_batch_with_one_unusual_message_is_left_whole(at: int) -> None:
    before = send_frame(1)
    for item in hostile_items():
        items = [raw_item(), raw_item()]
        items.insert(at, item)
        data = before + batch_frame(2, b"".join(items)) + send_frame(3)
        found = check(data)
        assert (found.count, found.position) == (1, len(before)), item


def test_a_batch_whose_header_is_unusual_is_left() -> None:
    for fields in hostile_batches():
        assert check(batch_frame(1, **fields)).count == 0, fields


@pytest.mark.parametrize("rocketmq", [False, True])
def test_a_batch_cut_anywhere_is_taken_with_its_last_byte(rocketmq: bool) -> None:
    first, second = send_frame(1), batch_frame(2, rocketmq=rocketmq)
    data = first + second
    for size in range(len(data) + 1):
        found = check(data[:size])
        assert found.count == (size >= len(first)) + 4 * (size == len(data))


@pytest.mark.parametrize("rocketmq", [False, True])
def test_any_changed_byte_is_read_as_the_plain_path_reads_it(rng, rocketmq: bool) -> None:
    frame = batch_frame(3, items_of(3, 2), rocketmq=rocketmq)
    for at in range(len(frame)):
        for value in (0, 1, 2, 22, 127, 128, 255, frame[at] ^ 1 << rng.randrange(8)):
            data = bytearray(frame)
            data[at] = value
            check(bytes(data) + frame)


def test_a_batch_that_does_not_fit_into_a_table_is_left_whole() -> None:
    first = send_frame(1)
    data = first + batch_frame(2) + send_frame(3)
    for rows in range(1, 5):
        assert check(data, rows=rows).position == len(first)
    assert check(data, rows=5).count == 5
    assert check(data, places=1).count == 1
    whole = check(data).text.nonzero()[0][-1] + 1
    counts = {check(data, text=size).count for size in range(300, int(whole) + 500)}
    assert counts == {0, 1, 5, 6}


def test_limits_are_those_of_the_plain_path() -> None:
    around = len(raw_item(b""))
    fits = raw_item(b"b" * (PARSED_AT_ONCE_BYTES - around))
    assert check(batch_frame(1, fits)).count == 1
    longer = raw_item(b"b" * (PARSED_AT_ONCE_BYTES - around + 1))
    assert check(batch_frame(1, longer)).count == 0


NAMES = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "WAIT", "XWAIT", "DELAY", "TIMER_D", "a", ""])
VALUES = st.text(st.sampled_from('aZ \x01\x02"\\é€'), max_size=6) | st.sampled_from(["false", "k"])
PIECES = st.tuples(NAMES, st.sampled_from(["\x01", "", "\x01\x01"]), VALUES, st.just("\x02"))
PROPERTIES = st.tuples(
    st.sampled_from(["", "UNIQ_KEY\x01id\x02"]),
    st.lists(PIECES, max_size=3).map(lambda pieces: "".join(map("".join, pieces))),
).map("".join)
NUMBERS = st.none() | st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 80)


@settings(max_examples=400, deadline=None, print_blob=True)
@given(
    items=st.lists(st.tuples(st.binary(max_size=9), PROPERTIES, NUMBERS, NUMBERS), max_size=4),
    header=PROPERTIES,
    code=st.sampled_from(CODES),
    rocketmq=st.booleans(),
)
def test_any_messages_are_read_as_the_plain_path_reads_them(items, header, code, rocketmq) -> None:
    body = bytearray()
    for number, (text, raw, size, body_size) in enumerate(items):
        one = bytearray(raw_item(text, raw.encode()))
        # Most messages have the right lengths, so that the following ones are read, too.
        if number == len(items) - 1 and size is not None:
            one[0:4] = struct.pack(">i", size)
        if number == len(items) - 1 and body_size is not None:
            one[16:20] = struct.pack(">i", body_size)
        body += one
    check(batch_frame(1, bytes(body), code=code, rocketmq=rocketmq))
    check(batch_frame(1, code=code, rocketmq=rocketmq, i=header))


def test_hostile_batches_are_read_as_the_plain_path_reads_them(rng: random.Random) -> None:
    for number in range(400):
        check(hostile_batch(rng, number) + batch_frame(number, encode_batch(items_of(0, 2))))
