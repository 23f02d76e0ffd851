"""scripts/bench: the brokers that can be compared here, and the steps of the ladder."""

import subprocess
import sys
from pathlib import Path

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
