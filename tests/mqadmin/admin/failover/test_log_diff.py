"""Logs of running brokers compared by checksums: exact offsets, few reads."""

import random
import zlib
from types import SimpleNamespace
from typing import Any

import pytest

from broker.errors import BrokerError
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.failover import log_diff
from mqadmin.admin.failover.log_diff import diff_logs


class FakeSession:
    """Brokers as byte strings; a Java broker answers no checksums."""

    def __init__(self, logs: dict[str, bytes], java: frozenset[str] = frozenset()) -> None:
        self.logs = logs
        self.java = java

    def without_deadline(self, call_ms: int | None = None) -> "FakeSession":
        return self

    def close(self) -> None:
        pass

    def call(self, address: str, code: int, **fields: Any) -> Any:
        log = self.logs[address]

        bounds = {"commitLogMinOffset": "0", "commitLogMaxOffset": str(len(log))}
        answer = SimpleNamespace(value=SimpleNamespace(table=bounds))
        if code == RequestCode.GET_BROKER_RUNTIME_INFO:
            return answer
        if address in self.java:
            raise BrokerError(3, "not supported", address)
        part = log[fields["physical_offset"] : fields["physical_offset"] + fields["size"]]

        return SimpleNamespace(header=SimpleNamespace(crc=zlib.crc32(part), size=len(part)))


def diff(a: bytes, b: bytes, java: frozenset[str] = frozenset()) -> Any:
    return diff_logs(FakeSession({"a:1": a, "b:1": b}, java), "a:1", "b:1")  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_diff, "PART_BYTES", 64)
    monkeypatch.setattr(log_diff, "LAST_BYTES", 256)


def test_the_first_byte_of_a_divergence_is_found_wherever_it_is() -> None:
    seed = 20261122
    chance = random.Random(seed)
    for _ in range(200):
        size = chance.randrange(1, 5_000)
        at = chance.randrange(size)
        common = chance.randbytes(at)
        a = common + b"\1" + chance.randbytes(size - at)
        b = common + b"\2" + chance.randbytes(size - at - chance.randrange(size - at))
        found = diff(a, b)
        assert (found.verdict, found.first_difference) == ("different", at), (seed, size, at)
        assert found.reads < 64 + 40


def test_equal_logs_and_a_beginning_are_distinguished() -> None:
    log = random.Random(7).randbytes(3_000)
    assert diff(log, log).verdict == "equal"
    shorter = diff(log, log[:2_500])
    assert (shorter.verdict, shorter.missing_bytes) == ("shorter", 500)
    assert diff(log, b"").verdict == "disjoint"


def test_of_a_java_broker_only_the_end_is_known() -> None:
    found = diff(b"x" * 100, b"x" * 90, java=frozenset({"b:1"}))
    assert (found.verdict, found.compared_bytes, found.max_offset_b) == ("unknown", 0, 90)
