"""scripts/mutate: the choice of mutants and of tests. Runs when cosmic-ray is installed."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("cosmic_ray", reason="installed by scripts/mutate")

SCRIPT = Path(__file__).parents[2] / "scripts" / "_mutate.py"
SOURCE = '''"""A module."""


def half(number: int | None) -> int:
    """Half of a number."""
    if number is None or number < 0:
        return 0
    return number // 2
'''


@pytest.fixture(scope="module")
def mutate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutate_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_annotations_and_docstrings_are_not_mutated(mutate: ModuleType) -> None:
    assert {one.line for one in mutate.mutants_of(SOURCE)} == {6, 7, 8}


def test_every_mutant_changes_its_line_only(mutate: ModuleType) -> None:
    for one in mutate.mutants_of(SOURCE):
        operator = mutate.get_operator(one.operator)()
        changed = mutate.mutate_code(SOURCE, operator, one.occurrence).splitlines()
        lines = zip(SOURCE.splitlines(), changed, strict=True)
        assert [number for number, (a, b) in enumerate(lines, 1) if a != b] == [one.line]


def test_a_sample_depends_on_the_seed_only(mutate: ModuleType) -> None:
    mutants = mutate.mutants_of(SOURCE)
    samples = [mutate.sample_of(mutants, 4, seed) for seed in ("1:a", "1:a", "2:a", "3:a")]
    assert samples[0] == samples[1]
    assert len({tuple(sample) for sample in samples}) > 1
    assert all(len(sample) == 4 for sample in samples)


def test_a_sample_has_at_most_one_mutant_of_an_operator_at_a_place(mutate: ModuleType) -> None:
    mutants = mutate.mutants_of(SOURCE)
    sample = mutate.sample_of(mutants, 1000, "1:a")
    places = [(one.line, one.column, one.family) for one in sample]
    assert len(places) == len(set(places)) < len(mutants)
    assert mutate.sample_of(mutants, 0, "1:a") == mutants


def test_a_module_is_tested_by_its_own_test_files(mutate: ModuleType) -> None:
    assert mutate.tests_of(Path("broker/store/clean.py")) == ["tests/broker/store/test_clean.py"]
    assert mutate.tests_of(Path("broker/store/nothing.py")) == ["tests/broker/store"]


def test_a_target_that_does_not_exist_is_a_usage_error(
    mutate: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        mutate.modules_of(["broker/store/nothing.py"])
    assert exit_info.value.code == 2
    assert "hint: " in capsys.readouterr().err
