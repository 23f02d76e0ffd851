"""``mqadmin store diff``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]
Golden = Callable[..., Path]


def test_equal_logs_are_status_0_and_different_ones_1(mqadmin: Run, golden_store: Golden) -> None:
    one = golden_store("normal-stop-533") / "store"
    other = golden_store("normal-stop-533", copy=True) / "store"
    done = mqadmin("store", "diff", str(one), str(other), "-o", "json")
    assert (done.status, json.loads(done.out)["verdict"]) == (0, "equal")
    log = other / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[332 + 30] ^= 1
    log.write_bytes(data)
    done = mqadmin("store", "diff", str(one), str(other), "-o", "json")
    found = json.loads(done.out)
    assert (done.status, found["verdict"]) == (1, "different")
    assert found["firstDifference"] == 362
    assert found["recordA"]["physicalOffset"] == 332


def test_a_recorded_slave_of_java_is_the_beginning_of_its_master(
    mqadmin: Run, golden_store: Golden
) -> None:
    pair = golden_store("pair-533")
    done = mqadmin("store", "diff", str(pair / "master"), str(pair / "slave"), "-o", "json")
    found = json.loads(done.out)
    assert (done.status, found["verdict"]) == (1, "shorter")
    assert found["sameUntil"] == found["maxOffsetB"] > 0
    assert found["missingBytes"] == found["maxOffsetA"] - found["maxOffsetB"]
