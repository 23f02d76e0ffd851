"""`scan` against the decoders of the plain path: equal fields for each frame that it takes.

And it takes every ordinary frame, and none after the first that is not.
"""

import gzip
import json
import random
import string
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba", reason="the compiled loops need the extra 'fast'")
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.message.properties import PROPERTIES_MAX_SIZE
from broker.remoting.protocol.codes import RequestCode
from broker.server.ingest.scanning.kernels import scan
from broker.server.processor.send.send_target import SHORT_NAMES
from broker.store.ingest import columns as col
from tests.support.ingest_scan import LIMITS, SUFFIX, check
from tests.support.send_frames import send_fields, send_frame, unusual_frame

NAMES = [*send_fields(0), *SHORT_NAMES, "j", "n", "x", "longer"]


def ordinary(count: int, **how: Any) -> bytes:
    return b"".join(send_frame(number, **how) for number in range(count))


@pytest.mark.parametrize("rocketmq", [False, True])
@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2])
def test_every_ordinary_send_is_taken(code: int, rocketmq: bool) -> None:
    data = ordinary(30, code=code, rocketmq=rocketmq)
    found = check(data)
    assert (found.count, found.position, found.used) == (30, len(data), 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"j": ""},
        {"e": "007"},
        {"h": "-5"},
        {"i": 'UNIQ_KEY\x01k\x02note\x01a "quoted" \\ / \n \x7f\x02'},
        {"i": "UNIQ_KEY\x01k\x02XTAGS\x01a\x02XKEYS\x01b"},
        {"i": "UNIQ_KEY\x01k\x02WAIT\x01falsy\x02empty\x01\x02"},
        {"i": "KEYS\x01 a  b \x02UNIQ_KEY\x01with space"},
        {"unknown": 'an "escaped" one'},
    ],
    ids=str,
)
def test_unusual_forms_of_ordinary_sends_are_taken(changes: dict[str, str]) -> None:
    assert check(send_frame(1, **changes)).count == 1


def test_it_stops_at_the_first_frame_that_is_not_ordinary(rng: random.Random) -> None:
    for _ in range(200):
        before = ordinary(rng.randrange(4))
        data = before + unusual_frame(rng, 9, malformed=True) + ordinary(2)
        found = check(data)
        assert found.position == len(before)


@pytest.mark.parametrize("rocketmq", [False, True])
def test_a_read_cut_anywhere_gives_the_whole_frames(rocketmq: bool) -> None:
    first, second = send_frame(1, rocketmq=rocketmq), send_frame(2, rocketmq=rocketmq)
    data = first + second
    for size in range(len(data) + 1):
        found = check(data[:size])
        assert found.count == (size >= len(first)) + (size == len(data))


@pytest.mark.parametrize("rocketmq", [False, True])
def test_any_changed_byte_is_read_as_the_plain_path_reads_it(rng, rocketmq: bool) -> None:
    frame = send_frame(3, rocketmq=rocketmq, body=b"body")
    values = (0, 1, 2, 34, 44, 47, 48, 57, 58, 92, 117, 123, 125, 127, 128, 255)
    for at in range(len(frame)):
        for value in (*values, frame[at] ^ 1 << rng.randrange(8)):
            data = bytearray(frame)
            data[at] = value
            check(bytes(data) + frame)


def test_full_tables_end_a_call() -> None:
    data = ordinary(8)
    assert check(data, rows=3).count == 3
    assert check(data, places=2).count == 2
    few = check(data, text=1_000)
    assert 0 < few.count < 8
    rest = check(data, few.position)
    assert few.count + rest.count == 8


def scan_segments(pieces: list[bytes], **sizes: int) -> tuple[Any, Any, int]:
    """Segments one after the other, and four bytes of none between them: segments, rows, count."""
    segments = np.zeros((len(pieces), col.SEGMENT_COLUMNS), dtype=np.int64)
    data = b""
    for segment, piece in zip(segments, pieces, strict=True):
        segment[[col.SEGMENT_AT, col.SEGMENT_END]] = len(data), len(data) + len(piece)
        data += piece + b"\xff" * 4
    rows = np.zeros((sizes.get("rows", 64), col.ROW_COLUMNS), dtype=np.int64)
    places = np.zeros((sizes.get("places", 16), col.PLACE_COLUMNS), dtype=np.int64)
    text = np.zeros(1 << 16, dtype=np.uint8)
    view, suffix = (np.frombuffer(one, dtype=np.uint8) for one in (data, SUFFIX))
    count, _ = scan(view, segments, LIMITS, suffix, text, rows, places)
    return segments, rows[:count], int(count)


def test_each_segment_ends_for_its_own_reason(rng: random.Random) -> None:
    whole = send_frame(1)
    pieces = [
        whole * 2,
        whole + unusual_frame(rng, 9, malformed=True) + whole,
        b"",
        whole + whole[:-1],
        whole[:7],
    ]
    segments, rows, count = scan_segments(pieces)
    assert rows[:, col.SEGMENT].tolist() == [0, 0, 1, 3]
    none, left = col.NO_FRAME, col.LEFT_FRAME
    assert segments[:, col.STOP].tolist() == [none, left, none, none, none]
    assert count == 4


def test_a_full_table_ends_its_segment_and_all_after_it() -> None:
    pieces = [send_frame(number) for number in range(5)]
    for sizes, full in (({"rows": 3}, 2), ({"places": 3}, 3)):
        segments, rows, _ = scan_segments(pieces, **sizes)
        assert rows[:, col.SEGMENT].tolist() == [0, 1, 2]
        stops = [col.NO_FRAME] * full + [col.FULL] * (5 - full)
        assert segments[:, col.STOP].tolist() == stops


def test_a_segment_ends_before_the_end_of_the_bytes() -> None:
    """For any position that the table has."""
    frame = send_frame(1)
    segments = np.zeros((1, col.SEGMENT_COLUMNS), dtype=np.int64)
    for size in (0, 7, 8, len(frame) - 1):
        segments[0, col.SEGMENT_END] = len(frame)
        rows = np.zeros((1, col.ROW_COLUMNS), dtype=np.int64)
        places = np.zeros((1, col.PLACE_COLUMNS), dtype=np.int64)
        view = np.frombuffer(frame, dtype=np.uint8)[:size]
        text = np.zeros(1 << 16, dtype=np.uint8)
        suffix = np.frombuffer(SUFFIX, dtype=np.uint8)
        assert scan(view, segments, LIMITS, suffix, text, rows, places) == (0, 0)
        assert segments[0, col.STOP] == col.NO_FRAME


def test_limits_are_those_of_the_plain_path() -> None:
    raw = "UNIQ_KEY\x01k\x02x\x01"
    fits = PROPERTIES_MAX_SIZE - len(SUFFIX) - len(raw) - 1
    assert check(send_frame(1, rocketmq=True, i=raw + "y" * fits)).count == 1
    assert check(send_frame(1, rocketmq=True, i=raw + "y" * (fits + 1))).count == 0
    assert check(send_frame(1, body=b"b" * (4 << 20))).count == 1
    assert check(send_frame(1, body=b"b" * ((4 << 20) + 1))).count == 0


TEXT = st.text(st.sampled_from(string.printable + '\x00\x01\x02\\"é€'), max_size=12)
VALUES = st.one_of(TEXT, st.integers(-(2**65), 2**65).map(str), st.sampled_from(["true", "false"]))


@settings(max_examples=300, deadline=None)
@given(
    fields=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5),
    pieces=st.lists(
        st.tuples(
            st.sampled_from(
                ["TAGS", "KEYS", "UNIQ_KEY", "WAIT", "XWAIT", "DELAY", "TIMER_DELAY_MS", "CLUSTER"]
            )
            | TEXT,
            st.sampled_from(["\x01", "", "\x01\x01"]),
            TEXT | st.just("false"),
            st.sampled_from(["\x02", "\x02\x02", ""]),
        ),
        max_size=4,
    ),
    rocketmq=st.booleans(),
    code=st.sampled_from([10, 310]),
)
def test_any_fields_are_read_as_the_plain_path_reads_them(fields, pieces, rocketmq, code) -> None:
    if pieces:
        text = "".join(map("".join, pieces))
        name = "i" if code == RequestCode.SEND_MESSAGE_V2 else "properties"
        fields[name] = f"UNIQ_KEY\x01key\x02{text}"
    check(send_frame(5, code=code, rocketmq=rocketmq, added=fields))


def test_recorded_frames_are_read_as_the_plain_path_reads_them(golden: Path) -> None:
    taken = 0
    for path in sorted((golden / "frames").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                taken += check(bytes.fromhex(json.loads(line)["hex"])).count
    assert taken > 20
