"""Runs of segments are those of the whole log, wherever the segments start and end."""

import random
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path

import pytest

from broker.store.dispatch.tag_codes import TagCodes
from broker.store.format.commitlog import MAGIC_PREFIX
from broker.store.recovery.runs import encoded_run
from broker.store.recovery.runs.encoded_run import EncodedRun, ReadOptions, encode_segment
from tests.support.lossy_recovery import fill

OPTIONS = ReadOptions(check_crc=True, power_failed=True, indexed_to=-1)


@pytest.fixture
def log(stores, inner, rng: random.Random) -> bytes:
    """The first file of a log with every kind of message."""
    store = stores.start(stores.config(mapped_file_size_commit_log=65_536))
    fill(store, stores, rng, inner, 300)
    stores.kill(store)
    content = min(Path(store.config.root, "commitlog").iterdir()).read_bytes()
    stores.close(stores.load(store.config))
    return content


def encoded(log: bytes, start: int, stop: int, options: ReadOptions = OPTIONS) -> list[EncodedRun]:
    return list(encode_segment(log, (start, stop, len(log)), 0, options, TagCodes()))


def units(runs: Iterable[EncodedRun]) -> dict[tuple[bytes, int], bytes]:
    found: dict[tuple[bytes, int], bytes] = {}
    for run in runs:
        for group in run.queues:
            key = group.topic, group.queue_id
            found[key] = found.get(key, b"") + group.units
    return found


def entries(runs: Iterable[EncodedRun]) -> list[tuple[int, int, int]]:
    return [
        entry
        for run in runs
        for entry in zip(run.hashes, run.offsets, run.store_timestamps, strict=True)
    ]


@pytest.mark.parametrize("rows", [1, 7, 512])
def test_segments_join_to_the_whole(log: bytes, rng: random.Random, monkeypatch, rows: int):
    monkeypatch.setattr(encoded_run, "ROWS", rows)
    whole = encoded(log, 0, len(log))
    assert sum(run.records for run in whole) > 100
    for _ in range(30):
        stops = sorted({*rng.sample(range(1, len(log)), 3), len(log)})
        parts: list[EncodedRun] = []
        for start, stop in zip([0, *stops], stops, strict=False):
            segment = encoded(log, start, stop)
            assert all(start <= run.start < stop for run in segment)
            parts += segment
        assert [one.start for one in parts[1:]] == [one.end for one in parts[:-1]]
        assert units(parts) == units(whole)
        assert entries(parts) == entries(whole)
        assert [run.newest_timestamp for run in parts][-1] == whole[-1].newest_timestamp


def test_only_records_after_the_last_indexed_one_get_entries(log: bytes, rng: random.Random):
    everything = entries(encoded(log, 0, len(log)))
    offsets = [offset for _, offset, _ in everything]
    for known in rng.sample(offsets, 20):
        options = OPTIONS._replace(indexed_to=known)
        found = entries(encoded(log, 0, len(log), options))
        assert found == everything[bisect_left(offsets, known + 1) :]
    assert not entries(encoded(log, 0, len(log), OPTIONS._replace(indexed_to=None)))


def test_a_segment_with_too_many_false_starts_is_given_up(log: bytes):
    hostile = (bytes(4) + MAGIC_PREFIX) * 4000 + log
    assert not encoded(hostile, 0, len(hostile))


@pytest.mark.parametrize("content", [b"", bytes(10_000), bytes(3)])
def test_a_segment_without_a_record_has_no_run(content: bytes):
    assert not encoded(content, 0, len(content))
