"""Golden frames of real peers and the cuts that every decoder must handle."""

import gzip
import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.errors import RemoteProtocolError

FRAMES = Path(__file__).parents[3] / "golden" / "frames"
LARGE_BYTES = 64 * 1024


class GoldenFrame(NamedTuple):
    """One recorded frame: ``recorded`` as the recorder read it, ``data`` the truth."""

    file: str
    recorded: dict
    data: bytes
    request_code: int
    is_response: bool

    @property
    def header(self) -> bytes:
        return self.data[8 : 8 + int.from_bytes(self.data[5:8])]

    @property
    def body(self) -> bytes:
        return self.data[8 + int.from_bytes(self.data[5:8]) :]

    @property
    def name(self) -> str:
        return f"{self.file} frame {self.recorded['n']}"


def read_frames(path: Path) -> list[GoldenFrame]:
    asked: dict[tuple, int] = {}
    frames = []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            recorded = json.loads(line)
            data = bytes.fromhex(recorded.pop("hex"))
            conn, opaque, sender = recorded["conn"], recorded["opaque"], recorded["from"]
            is_response = bool(recorded["flag"] & 1)
            if is_response:
                code = asked[conn, opaque, "client" if sender == "server" else "server"]
            else:
                code = asked[conn, opaque, sender] = recorded["code"]
            frames.append(GoldenFrame(path.name, recorded, data, code, is_response))
    return frames


@pytest.fixture(scope="session")
def golden_frames() -> list[GoldenFrame]:
    """Every recorded frame, in order."""
    paths = sorted(FRAMES.glob("*.jsonl.gz"))
    assert len(paths) == 9
    return [frame for path in paths for frame in read_frames(path)]


@pytest.fixture(scope="session")
def sample_frames(golden_frames: list[GoldenFrame]) -> list[GoldenFrame]:
    """The longest frame below 4 KiB per code, direction, response code, header form and body."""
    chosen: dict[tuple, GoldenFrame] = {}
    for frame in golden_frames:
        response_code = frame.recorded["code"] if frame.is_response else None
        kind = (frame.request_code, response_code, frame.recorded["head"], bool(frame.body))
        best = chosen.get(kind)
        size = len(frame.data)
        if size < 4096 and (best is None or size > len(best.data)):
            chosen[kind] = frame
    return list(chosen.values())


@pytest.fixture
def survives() -> Callable[..., None]:
    """Check that a decoder answers damaged input with a value or a RemoteProtocolError."""

    def check(decode: Callable[[bytes], object], data: bytes, *, tries: int = 60) -> None:
        seed = len(data)
        choose = random.Random(seed)
        damaged = [
            data[:cut] for cut in sorted({choose.randrange(len(data)) for _ in range(tries)})
        ]
        damaged.append(data + b"\x00\xff{")
        for _ in range(tries):
            place = choose.randrange(len(data))
            flipped = data[place] ^ (1 << choose.randrange(8))
            damaged.append(data[:place] + bytes([flipped]) + data[place + 1 :])
        for bad in damaged:
            with suppress(RemoteProtocolError):
                decode(bad)

    return check
