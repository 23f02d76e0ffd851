"""The child process of recovery answers each request, and ends with its input."""

import io
import mmap
import random
import subprocess
import sys
from pathlib import Path

import pytest

from broker.store.dispatch.tag_codes import TagCodes
from broker.store.recovery.runs import reader_process
from broker.store.recovery.runs.encoded_run import ReadOptions, encode_segment, unpack_runs
from broker.store.recovery.runs.reader_process import ANSWER, REQUEST, LogFile, Setup, serve
from tests.support.lossy_recovery import fill

OPTIONS = ReadOptions(check_crc=True, power_failed=True, indexed_to=-1)
FILE_BYTES = 16_384


@pytest.fixture
def files(stores, inner, rng: random.Random) -> list[LogFile]:
    store = stores.start(stores.config(mapped_file_size_commit_log=FILE_BYTES))
    fill(store, stores, rng, inner, 400)
    stores.close(store)
    folder = Path(store.config.root, "commitlog")
    return [LogFile(str(path), int(path.name), FILE_BYTES) for path in sorted(folder.iterdir())]


def answers(files: list[LogFile], slots: int, requests: list[bytes]) -> tuple[list[int], mmap.mmap]:
    setup = Setup(files, OPTIONS).packed()
    arena = mmap.mmap(-1, slots * reader_process.SLOT_BYTES + len(setup))
    arena[slots * reader_process.SLOT_BYTES :] = setup
    written = io.BytesIO()
    serve(io.BytesIO(b"".join(requests)), written, arena, slots)
    return [length for (length,) in ANSWER.iter_unpack(written.getvalue())], arena


def test_each_segment_is_in_its_slot(files: list[LogFile]):
    segments = [(1, 0, 5_000, 2), (0, 5_000, FILE_BYTES, 0), (1, 5_000, 9_000, 1)]
    lengths, arena = answers(files, 3, [REQUEST.pack(*one) for one in segments])
    for (number, start, stop, slot), length in zip(segments, lengths, strict=True):
        at = slot * reader_process.SLOT_BYTES
        runs = unpack_runs(arena[at : at + length])
        file = files[number]
        content = Path(file.path).read_bytes()
        positions = start, stop, FILE_BYTES
        assert runs == list(encode_segment(content, positions, file.start, OPTIONS, TagCodes()))
        assert runs


def test_runs_that_do_not_fit_have_no_length(files: list[LogFile], monkeypatch):
    monkeypatch.setattr(reader_process, "SLOT_BYTES", 100)
    lengths, arena = answers(files, 1, [REQUEST.pack(0, 0, FILE_BYTES, 0)])
    assert lengths == [0]
    assert arena[:100] == bytes(100)


def test_an_incomplete_request_is_the_end(files: list[LogFile]):
    assert answers(files, 1, [REQUEST.pack(0, 0, FILE_BYTES, 0)[:-1]])[0] == []


def test_the_process_ends_with_its_input(files: list[LogFile], tmp_path: Path):
    setup = Setup(files, OPTIONS).packed()
    memory = tmp_path / "memory"
    memory.write_bytes(bytes(reader_process.SLOT_BYTES) + setup)
    with memory.open("r+b") as shared:
        done = subprocess.run(
            [sys.executable, "-m", reader_process.__name__, str(shared.fileno()), "1"],
            input=REQUEST.pack(0, 0, FILE_BYTES, 0),
            capture_output=True,
            pass_fds=(shared.fileno(),),
            check=True,
        )
    (length,) = ANSWER.unpack(done.stdout)
    assert sum(run.records for run in unpack_runs(memory.read_bytes()[:length])) > 10
    assert not done.stderr
