"""scripts/bench: a result file is read unchanged, and other content is refused."""

import json
from pathlib import Path

import pytest

from tests.support.bench_modules import bench_module

machine = bench_module("comparison.machine")
measuring = bench_module("comparison.measuring")
results = bench_module("comparison.results")
ROOT = Path(__file__).parents[4]


def example():
    names = results.ENVIRONMENT - {"cpus", "versions"}
    environment = {**dict.fromkeys(sorted(names), "x"), "cpus": 2, "versions": {"python": "3"}}
    made = results.Results(environment, {"pairs": 3, "seconds": 4.0, "warm_up": 12.0})
    state = machine.MachineState(1.25, 0.5, 0.1)
    for target in ("java", "plain"):
        for rate in (10.0, 12.5):
            run = measuring.Run({"msgs_per_s": rate, "p99_us": 7.0}, state, 2)
            made.row("send.async.1x1").add(target, run)
    made.row("idle.memory").add("plain", measuring.Run({"rss_mib": 34.0}, state))
    return made


def test_a_result_file_is_read_as_it_was_written() -> None:
    assert results.decode(results.encode(example())) == example()


def test_a_run_takes_one_line() -> None:
    lines = [line for line in results.encode(example()).splitlines() if '"attempt"' in line]
    assert len(lines) == 5
    assert all(line.count('"attempt"') == 1 for line in lines)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(schema=2),
        lambda content: content.pop("schema"),
        lambda content: content["environment"].pop("commit"),
        lambda content: content["rows"][0].pop("workload"),
        lambda content: content["rows"][0]["runs"]["java"][0].pop("other_pct"),
        lambda content: content["rows"][0]["runs"]["java"][0].update(steal_pct="low"),
        lambda content: content["rows"][0]["runs"]["java"][0].update(attempt="1"),
        lambda content: content["rows"][0]["runs"]["java"][0]["figures"].update(p99_us=True),
        lambda content: content.update(rows=3),
    ],
)
def test_content_outside_the_schema_is_refused(change) -> None:
    content = json.loads(results.encode(example()))
    change(content)
    with pytest.raises(results.ResultError):
        results.decode(json.dumps(content))


def test_rows_that_were_not_measured_again_are_kept_in_their_order() -> None:
    new = results.Results(example().environment, {"pairs": 3})
    state = machine.MachineState(0.0, 0.0, 0.0)
    new.row("open.sync.2k").add("java", measuring.Run({"p99_us": 1.0}, state))
    new.row("idle.memory").add("plain", measuring.Run({"rss_mib": 50.0}, state))
    merged = new.with_rows_of(example())
    assert [row.workload for row in merged.rows] == [
        "send.async.1x1",
        "idle.memory",
        "open.sync.2k",
    ]
    assert merged.row("idle.memory").median("plain", "rss_mib") == 50.0
    assert new.with_rows_of(None) is new


def test_rows_of_another_machine_are_not_kept() -> None:
    new = results.Results({**example().environment, "cpus": 64}, {"pairs": 3})
    with pytest.raises(results.ResultError, match="another cpus"):
        new.with_rows_of(example())


def test_text_that_is_not_json_is_refused() -> None:
    with pytest.raises(results.ResultError, match="not a result file"):
        results.decode("{")


def test_the_environment_has_every_field_of_the_schema() -> None:
    found = results.read_environment(ROOT, "")
    assert found.keys() == results.ENVIRONMENT
    assert found["cpus"] >= 1
    assert found["kernel"]
    assert "python" in found["versions"]
