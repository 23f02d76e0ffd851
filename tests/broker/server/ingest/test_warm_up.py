"""After the warm-up no call of a broker compiles or loads anything on the event loop."""

import pytest

pytest.importorskip("numba", reason="ingest needs the extra 'fast'")

from broker.server.ingest import warm_up
from broker.store.format.vectorized.kernels import put_entries
from tests.support.send_frames import send_frame


def test_traffic_adds_no_signature(compare) -> None:
    kernels = warm_up.load()
    loops = (kernels.scan, kernels.append, kernels.derive, kernels.replies, put_entries)
    before = [len(loop.signatures) for loop in loops]

    def prepare(desk) -> None:
        desk.topic("Orders")
        desk.send()

    # The index has files of 4,000 entries: a block continues in the next file.
    frames = [send_frame(number, e="0", body=b"x") for number in range(3_000)]
    reads = [(0, b"".join(frames[at : at + 700])) for at in range(0, len(frames), 700)]
    assert compare(reads, prepare).taken > 2_000
    assert [len(loop.signatures) for loop in loops] == before


def test_as_a_program_it_ends_with_success(monkeypatch) -> None:
    monkeypatch.setattr("os.nice", lambda by: by)
    assert warm_up.main() == 0
