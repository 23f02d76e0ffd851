"""scripts/bench report: options, and README.md's table from a result file."""

import pytest

from tests.support.bench_modules import bench_module

report = bench_module("report")
rendering = bench_module("comparison.rendering")


def test_three_pairs_and_three_attempts_are_the_default() -> None:
    options = report.parse([])
    assert (options.pairs, options.attempts, options.only) == (3, 3, None)
    assert report.parse(["--only", "send.sync,pull"]).only == ["send.sync", "pull"]


def test_the_table_is_written_from_the_result_file(tmp_path, monkeypatch) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{rendering.BEGIN}\nold\n{rendering.END}\nafter\n")
    monkeypatch.setattr(report, "README", readme)
    report.write_readme(report.RESULT_FILE)
    text = readme.read_text()
    assert text.startswith(f"before\n{rendering.BEGIN}\nMedians of ")
    assert text.endswith(f"{rendering.END}\nafter\n")
    assert "old" not in text.splitlines()


@pytest.mark.parametrize("content", ["{", '{"schema": 99}'])
def test_a_result_file_outside_the_schema_changes_nothing(content, tmp_path, monkeypatch) -> None:
    readme, path = tmp_path / "README.md", tmp_path / "results.json"
    readme.write_text("as before")
    path.write_text(content)
    monkeypatch.setattr(report, "README", readme)
    with pytest.raises(SystemExit, match="error: "):
        report.write_readme(path)
    assert readme.read_text() == "as before"


def test_a_second_measurement_on_the_machine_is_refused(tmp_path) -> None:
    path = tmp_path / "lock"
    first = report.lock_machine(path)
    with pytest.raises(SystemExit, match="another measurement runs"):
        report.lock_machine(path)
    first.close()
    report.lock_machine(path).close()


def test_rows_of_another_machine_are_not_updated() -> None:
    before = report.decode(report.RESULT_FILE.read_text())
    now = report.Results({**before.environment}, {})
    report.check_machine(now, before, report.RESULT_FILE)
    report.check_machine(now, None, None)
    now.environment["cpu_model"] = "another model"
    with pytest.raises(
        SystemExit, match=r"results\.json: measured with another cpu_model.*\nhint: "
    ):
        report.check_machine(now, before, report.RESULT_FILE)
