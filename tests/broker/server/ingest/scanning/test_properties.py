"""The checks of property strings: the values they note, and the end of a record's string."""

import pytest

pytest.importorskip("numba", reason="the compiled loops need the extra 'fast'")
import numpy as np

from broker.server.ingest.fields import LIMITS, PROPERTIES_LIMIT
from broker.server.ingest.scanning.properties import check_properties, complete
from broker.store.ingest import columns as col

SUFFIX = b"MSG_REGION\x01R\x02"


def noted(raw: bytes) -> dict[str, bytes] | None:
    """The values of the names that a record needs, None if the string is refused."""
    row = np.zeros(col.ROW_COLUMNS, dtype=np.int64)
    text = np.frombuffer(raw or b"\0", dtype=np.uint8).copy()
    if not check_properties(text, 0, len(raw), row):
        return None
    return {
        name: raw[row[column] : row[column] + row[column + 1]]
        for name, column in (("K", col.UNIQ_KEY_AT), ("T", col.TAGS_AT), ("W", col.KEYS_AT))
        if row[column] >= 0
    }


def test_the_names_that_a_record_needs_are_noted() -> None:
    raw = b"KEYS\x01a b\x02TAGS\x01t\x02x\x01y\x02UNIQ_KEY\x01id"
    assert noted(raw) == {"K": b"id", "T": b"t", "W": b"a b"}
    assert noted(raw + b"\x02") == noted(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"TAGS\x01t\x02",
        b"UNIQ_KEY\x01\x02",
        b"UNIQ_KEY\x01a\x02UNIQ_KEY\x01b\x02",
        b"UNIQ_KEY\x01a\x02TAGS\x01b\x02TAGS\x01c\x02",
        b"UNIQ_KEY\x01a\x02WAIT\x01false\x02",
        b"UNIQ_KEY\x01a\x02XWAIT\x01false",
        b"UNIQ_KEY\x01a\x02XDELAY\x011\x02",
        b"UNIQ_KEY\x01a\x02x\x01TIMER_D\x02",
        b"UNIQ_KEY\x01a\x02\x02",
        b"UNIQ_KEY\x01a\x02\x01b\x02",
        b"UNIQ_KEY\x01a\x02b\x01c\x01\x02",
        b'UNIQ_KEY\x01a"\x02',
    ],
)
def test_a_string_that_the_broker_must_understand_is_refused(raw: bytes) -> None:
    assert noted(raw) is None


@pytest.mark.parametrize("limit", [0, 1])
@pytest.mark.parametrize("raw", [b"UNIQ_KEY\x01a", b"UNIQ_KEY\x01a\x02"])
def test_the_properties_of_the_broker_follow_a_separator(raw: bytes, limit: int) -> None:
    expected = b"UNIQ_KEY\x01a\x02" + SUFFIX
    text = np.zeros(100, dtype=np.uint8)
    text[3 : 3 + len(raw)] = np.frombuffer(raw, dtype=np.uint8)
    row = np.zeros(col.ROW_COLUMNS, dtype=np.int64)
    limits = np.zeros(LIMITS, dtype=np.int64)
    limits[PROPERTIES_LIMIT] = len(expected) - limit
    suffix = np.frombuffer(SUFFIX, dtype=np.uint8)
    end = complete(text, 3, 3 + len(raw), limits, suffix, row)
    if limit:
        assert end == -1
        return
    assert end == 3 + len(expected)
    assert (row[col.PROPERTIES_AT], row[col.PROPERTIES_LENGTH]) == (3, len(expected))
    assert text[3:end].tobytes() == expected
    assert not text[end:].any()
