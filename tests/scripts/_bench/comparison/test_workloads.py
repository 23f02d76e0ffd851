"""scripts/bench: the list of workloads, and the figures of the generator's answers."""

from pathlib import Path

from tests.support.bench_modules import bench_module

rendering = bench_module("comparison.rendering")
workloads = bench_module("comparison.workloads")


def test_names_are_unique_and_every_phase_exists() -> None:
    found = workloads.workloads(4.0, 8)
    assert len({one.name for one in found}) == len(found)
    assert {one.phase for one in found} == workloads.PHASES.keys()


def test_every_label_of_the_readme_names_a_workload() -> None:
    names = {one.name for one in workloads.workloads(4.0, 2)}
    assert rendering.LABELS.keys() <= names | {"start.empty", "idle.memory"}


def test_a_fixed_rate_takes_twice_the_time_of_a_closed_loop() -> None:
    words = {one.name: one.words for one in workloads.workloads(4.0, 2)}
    closed, fixed = words["send.sync.1x1"], words["open.sync.2k"]
    assert closed[closed.index("--seconds") + 1] == "4"
    assert fixed[fixed.index("--seconds") + 1] == "8"


def test_failures_of_every_kind_are_errors() -> None:
    answer = {"msgs_per_s": 5.0, "acked_total": 10, "errors": {"2": 3}, "timeouts": 1, "wrong": 1}
    figures = workloads.figures_of({**answer, "check": "lost 1"}, 1.0, 2.0)
    assert figures["errors"] == 6.0
    assert workloads.figures_of({"failed": "no broker"}, 0.0, 1.0)["errors"] == 1.0


def test_figures_have_rate_latencies_and_cpu_per_message() -> None:
    answer = {"msgs_per_s": 5.0, "acked_total": 10, "latency_us": {"p50": 1, "p99": 2, "p999": 3}}
    assert workloads.figures_of({**answer, "check": "ok"}, 1.0, 2.0) == {
        "errors": 0.0,
        "server_cores": 0.5,
        "msgs_per_s": 5.0,
        "p50_us": 1.0,
        "p99_us": 2.0,
        "p999_us": 3.0,
        "cpu_us_per_msg": 100_000.0,
    }


def _pulled(messages: int, rate: float, p99: float, **more: object) -> dict[str, object]:
    latencies = {"p50": 1, "p99": p99, "p999": 10}
    return {"messages": messages, "msgs_per_s": rate, "latency_us": latencies, **more}


def test_repeated_calls_have_the_rate_of_all_and_the_latencies_of_the_median() -> None:
    answer = workloads.joined([_pulled(10, 10.0, 4), _pulled(30, 10.0, 6), _pulled(20, 20.0, 9)])
    assert answer == _pulled(60, 12.0, 6)
    failed = _pulled(10, 10.0, 4, timeouts=1)
    assert workloads.joined([_pulled(10, 10.0, 4), failed]) == failed


def test_a_short_workload_is_repeated() -> None:
    found = {one.name: one for one in workloads.workloads(4.0, 2)}
    assert found["pull.4conn"].repeat_s == 4.0
    assert found["query.key.8x1"].repeat_s == 0.0


def test_the_limit_of_the_disk_is_measured_and_leaves_no_file(tmp_path: Path) -> None:
    figures = workloads.disk_figures(tmp_path, 0.01)
    assert figures["syncs_per_s"] > 0
    assert 0 < figures["p50_us"] <= figures["p99_us"]
    assert list(tmp_path.iterdir()) == []
