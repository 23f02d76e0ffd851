"""scripts/bench: lines, tables, reasons of a flat ladder; README.md has the committed table."""

from pathlib import Path

import pytest

from tests.support.bench_modules import bench_module

machine = bench_module("comparison.machine")
measuring = bench_module("comparison.measuring")
rendering = bench_module("comparison.rendering")
results = bench_module("comparison.results")
ROOT = Path(__file__).parents[4]
QUIET = machine.MachineState(1.0, 0.5, 0.1)
BUSY = machine.MachineState(30.0, 0.0, 2.0)


def made(cpus: int = 2):
    versions = {"python": "3.11.2", "uvloop": "0.22", "java": "17.0.1", "rocketmq": "5.3.3"}
    environment = {"date": "2026-01-02T03:04:05+00:00", "commit": "abc", "cpus": cpus}
    environment |= {"cpu_model": "CPU", "memory_mib": 1, "kernel": "6.1", "versions": versions}
    return results.Results(environment, {"pairs": 3, "seconds": 4.0, "warm_up": 12.0})


def add(found, workload: str, target: str, state=QUIET, **figures: float) -> None:
    for _ in range(3):
        found.row(workload).add(target, measuring.Run(figures, state))


def test_the_line_of_a_run_has_the_state_of_the_machine_and_the_attempt() -> None:
    run = measuring.Run({"msgs_per_s": 45_311.0, "p99_us": 581.0}, BUSY, 3)
    line = rendering.run_line("send.async.16x1", "1/3", "plain", run)
    assert "45,300/s, p99 0.58 ms" in line
    assert line.endswith("| other 30.0 % steal 0.0 % load 2.0 attempt 3 disturbed")


def test_a_disturbed_row_has_figures_and_no_ratio() -> None:
    found = made()
    add(found, "send.async.16x1", "java", msgs_per_s=100.0)
    add(found, "send.async.16x1", "plain", BUSY, msgs_per_s=200.0)
    summary = list(rendering.summary_lines(found))[1]
    assert "disturbed" in summary
    assert "other 30.0 %" in summary
    assert "2.00x" not in summary
    assert "| 200/s | 100/s | disturbed |" in rendering.readme_table(found)


@pytest.mark.parametrize(
    ("workload", "figures", "cells"),
    [
        ("send.async.16x1", {"msgs_per_s": 200.0, "p99_us": 20.0}, "200/s, p99 0.02 ms | 2.00x"),
        ("open.sync.2k", {"p50_us": 500.0, "p99_us": 20_000.0}, "p50 0.50, p99 20.0 ms | 2.00x"),
        ("start.empty", {"answer_s": 0.18}, "0.18 s | 2.00x"),
        ("idle.memory", {"rss_mib": 34.12}, "34.1 MiB | 2.00x"),
    ],
)
def test_a_ratio_compares_the_headline_figure(workload: str, figures: dict, cells: str) -> None:
    found = made()
    add(found, workload, "plain", **figures)
    add(found, workload, "java", **{name: value / 2 for name, value in figures.items()})
    own, _, ratio = cells.partition(" | ")
    line = rendering.readme_table(found).splitlines()[-2]
    assert f"| {own} |" in line
    assert line.endswith(f"| {ratio} |")


def test_the_fast_column_is_in_the_table_only_if_it_was_measured() -> None:
    found = made()
    add(found, "send.async.16x1", "java", msgs_per_s=100.0)
    add(found, "send.async.16x1", "plain", msgs_per_s=150.0)
    assert "| workload | mqbroker | Java | ratio |" in rendering.readme_table(found)
    add(found, "send.async.16x1", "fast", msgs_per_s=900.0)
    table = rendering.readme_table(found)
    assert "| workload | mqbroker | mqbroker, extra `fast` | Java | ratio |" in table
    assert "| 150/s | 900/s | 100/s | 1.50x, 9.00x |" in table


def test_the_detailed_table_has_the_cpu_time_of_each_message() -> None:
    found = made()
    add(found, "send.async.16x1", "java", msgs_per_s=100.0, cpu_us_per_msg=27.04)
    add(found, "send.async.16x1", "plain", msgs_per_s=150.0)
    assert rendering.table_rows(found, cpu=True)[1:] == [
        ("send, 16 x 1", "150/s", "100/s, 27.0 us CPU", "1.50x")
    ]


def test_one_synchronous_send_at_a_time_is_compared_with_the_disk() -> None:
    found = made()
    assert list(rendering.limit_lines(found)) == []
    add(found, "disk.fdatasync", "disk", syncs_per_s=8_000.0)
    add(found, "send.sync.1x1", "plain", msgs_per_s=2_000.0)
    (line,) = rendering.limit_lines(found)
    assert line == "send.sync.1x1 plain: 0.25x of fdatasync (8,000/s)"


def ladder(one: float, two: float, cores: float, cpus: int = 2) -> str:
    found = made(cpus)
    add(found, "ladder.16x1.1core", "plain", msgs_per_s=one, server_cores=0.9)
    add(found, "ladder.16x1.2core", "plain", msgs_per_s=two, server_cores=cores)
    (line,) = rendering.ladder_lines(found)
    return line


def test_a_flat_ladder_has_its_reason() -> None:
    flat = ladder(100.0, 105.0, 1.0)
    assert flat.startswith("ladder 16x1 plain: 1 to 2 cores: 1.05x, 1.00 cores used; flat: ")
    assert "the load generator shares the 2 cores" in flat
    assert "one event loop serves all connections" in flat
    assert "shares" not in ladder(100.0, 105.0, 1.0, cpus=4)


def test_a_ladder_that_rises_has_no_reason() -> None:
    assert ladder(100.0, 150.0, 1.6).endswith("1.50x, 1.60 cores used")


def test_a_disturbed_step_of_the_ladder_has_no_gain() -> None:
    found = made()
    add(found, "ladder.16x1.1core", "plain", BUSY, msgs_per_s=1.0, server_cores=0.9)
    add(found, "ladder.16x1.2core", "plain", msgs_per_s=2.0, server_cores=0.9)
    assert list(rendering.ladder_lines(found)) == ["ladder 16x1 plain: 1 to 2 cores: disturbed"]


def test_the_table_is_replaced_between_its_markers_only() -> None:
    text = f"before\n{rendering.BEGIN}\nold\n{rendering.END}\nafter\n"
    new = f"{rendering.BEGIN}\nnew\n{rendering.END}"
    assert rendering.replace_table(text, new) == f"before\n{new}\nafter\n"
    with pytest.raises(ValueError, match="has no lines"):
        rendering.replace_table("no markers", new)


def test_the_table_of_the_readme_is_generated_from_the_committed_result_file() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    text = (ROOT / "scripts" / "_bench" / "results.json").read_text(encoding="utf-8")
    table = rendering.readme_table(results.decode(text))
    assert rendering.replace_table(readme, table) == readme, "run scripts/bench --table"
