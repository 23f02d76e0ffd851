"""scripts/bench: the brokers that can be compared here, and the steps of the ladder."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.bench_modules import bench_module

brokers = bench_module("comparison.brokers")


def names(monkeypatch, *, java: bool, known: bool, installed: bool) -> dict:
    monkeypatch.setattr(brokers.shutil, "which", lambda name: "/bin/java" if java else None)
    fields = {brokers.FAST_SETTING: "vectorized_ingest_enable"} if known else {}
    monkeypatch.setattr(brokers, "FIELD_OF_KEY", fields)
    monkeypatch.setattr(brokers.importlib.util, "find_spec", lambda name: installed or None)
    return {target.name: target.settings for target in brokers.targets()}


def test_fast_needs_the_setting_and_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    found = names(monkeypatch, java=True, known=True, installed=True)
    assert list(found) == ["java", "plain", "fast"]
    assert found["plain"] == {brokers.FAST_SETTING: "false"}
    assert found["fast"] == {brokers.FAST_SETTING: "true"}
    assert list(names(monkeypatch, java=True, known=True, installed=False)) == ["java", "plain"]
    assert list(names(monkeypatch, java=True, known=False, installed=True)) == ["java", "plain"]


def test_a_setting_that_the_broker_does_not_know_is_not_set(monkeypatch) -> None:
    assert names(monkeypatch, java=False, known=False, installed=True) == {"plain": {}}


class Broker(NamedTuple):
    name: str = "fast"
    address: str = "127.0.0.1:1"


def loading(monkeypatch: pytest.MonkeyPatch, *states: str) -> None:
    """The broker reports these states, one per question, and time does not pass."""
    answers = iter(states)
    monkeypatch.setattr(brokers.asyncio, "run", lambda info: info)  # no event loop
    monkeypatch.setattr(brokers.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(
        brokers, "runtime_info", lambda address: {brokers.FAST_STATE: next(answers)}
    )


def test_the_fast_path_is_awaited_and_gets_traffic_while_it_waits(monkeypatch) -> None:
    loading(monkeypatch, "waiting", "waiting", "loading", "active")
    sent = []
    brokers.await_fast_path(Broker(), lambda: sent.append(1))
    assert len(sent) == 2


@pytest.mark.parametrize("state", ["unavailable: no numba", "off"])
def test_a_fast_path_that_is_not_available_ends_the_measurement(monkeypatch, state) -> None:
    loading(monkeypatch, state)
    with pytest.raises(SystemExit, match=f"vectorizedIngestState is {state}"):
        brokers.await_fast_path(Broker(), lambda: None)


@pytest.mark.parametrize(
    ("processors", "steps"), [(1, [1]), (2, [1, 2]), (4, [1, 2, 4]), (6, [1, 2, 4, 6])]
)
def test_the_ladder_doubles_up_to_all_processors(processors: int, steps: list[int]) -> None:
    assert brokers.core_steps(processors) == steps


def test_the_cores_of_a_running_process_are_set_for_all_its_threads() -> None:
    code = "import threading, sys; t = threading.Event(); threading.Thread(target=t.wait,"
    code += " daemon=True).start(); print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        brokers.set_cores(child.pid, {0})
        for task in Path(f"/proc/{child.pid}/task").iterdir():
            status = (task / "status").read_text()
            assert "Cpus_allowed_list:\t0\n" in status
        child.communicate()
