"""Filler records: exact lengths, valid records, no unit and no key."""

import random

import pytest

from broker.common.sysflag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from broker.message.record import MIN_RECORD_SIZE, decode_record
from broker.store.format.commitlog import LogRecord, check_record, scan_commitlog
from mqadmin.inspector.verify.record_checks import key_hashes
from mqadmin.repair import filler
from mqadmin.repair.filler import LEAST, TOPIC, encode_filler, fillers

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    "length",
    [LEAST, LEAST + 1, MIN_RECORD_SIZE + len(TOPIC) - 1, MIN_RECORD_SIZE + len(TOPIC), 500, 9000],
)
def test_a_filler_is_a_valid_record_of_exactly_its_length(length: int) -> None:
    data = encode_filler(length, 4096, NOW, "pages 1 to 3 were lost")
    assert len(data) == length
    assert check_record(data, 0) == length
    record = decode_record(data, check_crc=True)
    assert (record.physical_offset, record.store_timestamp) == (4096, NOW)
    assert record.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK


def test_a_filler_has_no_index_keys() -> None:
    (record,) = scan_commitlog(encode_filler(200, 0, NOW, "x"), 0)
    assert isinstance(record, LogRecord)
    assert key_hashes(record) == []


def test_the_body_describes_the_region_and_is_cut_to_the_length() -> None:
    body = decode_record(encode_filler(300, 0, NOW, "hole: ü")).body
    assert body.rstrip(b"\0") == "hole: ü".encode()
    short = decode_record(encode_filler(LEAST + 3, 0, NOW, "hole")).body
    assert short == b"hol"


@pytest.mark.parametrize("length", range(LEAST))
def test_a_region_shorter_than_a_record_gets_none(length: int) -> None:
    assert list(fillers(100, 100 + length, NOW, "x")) == []


def test_fillers_cover_a_region_without_gaps(monkeypatch, rng: random.Random) -> None:
    """Including regions that are longer than the longest filler by less than a shortest one."""
    monkeypatch.setattr(filler, "MAX_FILLER_BYTES", 1000)
    for length in [LEAST, 999, 1000, 1001, 1000 + LEAST - 1, 1000 + LEAST, 2999, 3001] + [
        rng.randrange(LEAST, 9000) for _ in range(50)
    ]:
        begin = rng.randrange(1 << 40)
        covered = begin
        for offset, data in fillers(begin, begin + length, NOW, "x"):
            assert offset == covered
            assert LEAST <= len(data) <= 1000
            assert decode_record(data).physical_offset == offset
            covered += len(data)
        assert covered == begin + length, length
