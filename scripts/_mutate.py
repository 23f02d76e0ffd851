"""Mutation testing of single modules with the operators of cosmic-ray.

cosmic-ray supplies the operators and applies them to source text. Its own session database and
runner are not used: they have no sampling, and they mutate the files of the clone. Here every
mutant is written into a temporary copy of the clone, and the tests run in that copy.
"""

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_TARGETS = [
    "broker/store/format",
    "broker/store/commitlog.py",
    "broker/store/flushing/flush.py",
    "broker/store/recovery",
    "mqadmin/repair",
]
MIN_TIMEOUT_S = 20.0  # a mutant that loops is stopped after this, or after ten times the clean run
PYTEST = ["-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly"]


@dataclass(frozen=True)
class Mutant:
    """One change of one module: the operator and which of its occurrences it is applied to."""

    operator: str
    occurrence: int
    line: int
    column: int

    @property
    def family(self) -> str:
        """The operator without its variant: eleven replacements of one `+` are one family."""
        return self.operator.partition("_")[0]


def annotation_ranges(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The (line, column) ranges of annotations: mutating `int | None` tests nothing."""
    nodes: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.arg, ast.AnnAssign)):
            nodes.append(node.annotation)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            nodes.append(node.returns)
    return [
        ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))
        for node in nodes
        if node is not None
    ]


def mutants_of(source: str) -> list[Mutant]:
    """Every mutant of a module, in source order."""
    found = []
    annotations = annotation_ranges(source)
    tree = get_ast(source)
    nodes = list(ast_nodes(tree))
    for name in operator_names():
        operator_class = get_operator(name)
        if operator_class.arguments():
            continue  # needs variable names to insert: not configured
        operator = operator_class()
        positions = (pos for node in nodes for pos, _ in operator.mutation_positions(node))
        for occurrence, position in enumerate(positions):
            if not any(first <= position < last for first, last in annotations):
                found.append(Mutant(name, occurrence, *position))
    return sorted(found, key=lambda one: (one.line, one.column, one.operator, one.occurrence))


def sample_of(mutants: list[Mutant], count: int, seed: str) -> list[Mutant]:
    """Choose `count` places of the module and one mutant of each; 0 chooses every mutant.

    Places are drawn, not mutants: a `+` has eleven replacements and a `not` has one, and most of
    the eleven fail at once with a TypeError.
    """
    if count == 0:
        return mutants
    places: dict[tuple[int, int, str], list[Mutant]] = {}
    for one in mutants:
        places.setdefault((one.line, one.column, one.family), []).append(one)
    draw = random.Random(seed)
    chosen = draw.sample(sorted(places), min(count, len(places)))
    return [draw.choice(places[place]) for place in sorted(chosen)]


def modules_of(targets: list[str]) -> list[Path]:
    """Resolve targets to modules, relative to the clone. Raises SystemExit for a wrong target."""
    modules: list[Path] = []
    for target in targets:
        path = ROOT / target
        if path.is_dir():
            modules += sorted(p for p in path.rglob("*.py") if p.name != "__init__.py")
        elif path.suffix == ".py" and path.exists():
            modules.append(path)
        else:
            sys.stderr.write(f"error: {target}: not a module or folder of the clone\n")
            sys.stderr.write("hint: name it as broker/store/clean.py or broker/store/format\n")
            raise SystemExit(2)
    return [path.resolve().relative_to(ROOT) for path in dict.fromkeys(modules)]


def tests_of(module: Path) -> list[str]:
    """The test files of a module, or the test folder of its package."""
    folder = Path("tests") / module.parent
    own = folder / f"test_{module.stem}.py"
    files = [own] if (ROOT / own).exists() else []
    for path in sorted((ROOT / folder).glob(f"test_{module.stem}_*.py")):
        # test_flush_barrier.py tests flush_barrier.py, not flush.py
        if not (ROOT / module.parent / path.name.removeprefix("test_")).exists():
            files.append(path.relative_to(ROOT))
    return [str(path) for path in files] or [str(folder)]


def copy_clone(target: Path) -> None:
    """Copy the files of the clone as they are now, without .venv and other ignored files."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def run_tests(copy: Path, tests: list[str], timeout_s: float) -> tuple[str, float, str]:
    """Run tests in the copy. Returns (passed, failed or timeout; seconds; last lines of output)."""
    environment = os.environ | {
        "PYTHONPATH": str(copy),  # before the editable installation of the clone
        "PYTHONDONTWRITEBYTECODE": "1",  # two mutants within a second may have one time and size
    }
    started = time.monotonic()
    with subprocess.Popen(
        [sys.executable, *PYTEST, *tests], cwd=copy, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=timeout_s)
            result = "passed" if process.returncode == 0 else "failed"
        except subprocess.TimeoutExpired:
            result, output = "timeout", ""
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        if result == "timeout":
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return result, time.monotonic() - started, "\n".join(output.splitlines()[-15:])


def changed_lines(before: str, after: str) -> Iterator[str]:
    """The lines that a mutant changes, as they were and as they are."""
    old, new = before.splitlines(), after.splitlines()
    first = next((i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), 0)
    last = len(old) - len(new)
    yield f"    - {old[first].strip()}"
    if last <= 0:
        yield f"    + {new[first].strip()}"


def mutate_module(copy: Path, module: Path, options: argparse.Namespace) -> Counter[str] | None:
    """Test the sample of one module and print its survivors. None: the clean run failed."""
    # The copy: the clone may have moved on since, and its tests are not the ones that run.
    source = ((ROOT if options.list else copy) / module).read_text(encoding="utf-8")
    mutants = mutants_of(source)
    chosen = sample_of(mutants, options.sample, f"{options.seed}:{module}")
    tests = tests_of(module)
    print(f"{module}: {len(chosen)} of {len(mutants)} mutants, {' '.join(tests)}", flush=True)
    counts: Counter[str] = Counter(mutants=len(mutants))
    if options.list or not chosen:
        return counts
    result, clean_s, output = run_tests(copy, tests, 600)
    if result != "passed":
        sys.stderr.write(f"{output}\nerror: {module}: its tests fail without a mutant ({result})\n")
        return None
    timeout_s = max(MIN_TIMEOUT_S, 10 * clean_s)
    try:
        for mutant in chosen:
            changed = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
            (copy / module).write_text(changed, encoding="utf-8")
            result, _, _ = run_tests(copy, tests, timeout_s)
            if result == "passed" and options.confirm:
                result, _, _ = run_tests(copy, [str(Path("tests") / module.parent)], 1200)
            counts[result] += 1
            if result == "passed":
                operator = mutant.operator.removeprefix("core/")
                print(f"  survived {module}:{mutant.line}:{mutant.column + 1} {operator}")
                print("\n".join(changed_lines(source, changed)), flush=True)
    finally:
        (copy / module).write_text(source, encoding="utf-8")
    return counts


def print_scores(scores: dict[Path, Counter[str]]) -> None:
    """Print tested, killed and surviving mutants and the score of each module and of all."""
    total: Counter[str] = Counter()
    for counts in scores.values():
        total += counts
    print(
        f"\n{'MODULE':50} {'TESTED':>6} {'KILLED':>6} {'TIMEOUT':>7} {'SURVIVED':>8} {'SCORE':>6}"
    )
    for name, counts in [*scores.items(), ("all", total)]:
        tested = counts["failed"] + counts["timeout"] + counts["passed"]
        score = f"{(tested - counts['passed']) / tested:.0%}" if tested else "-"
        print(
            f"{name!s:50} {tested:6} {counts['failed']:6} {counts['timeout']:7}"
            f" {counts['passed']:8} {score:>6}"
        )


def main() -> int:
    """Run the mutants of the targets; return 1 if a module could not be tested."""
    parser = argparse.ArgumentParser(prog="scripts/mutate")
    parser.add_argument("targets", nargs="*", metavar="MODULE", default=DEFAULT_TARGETS)
    parser.add_argument("--sample", type=int, default=20, metavar="N", help="mutants per module")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="seed of the sample")
    parser.add_argument("--confirm", action="store_true", help="package tests on survivors")
    parser.add_argument("--list", action="store_true", help="print targets, run nothing")
    options = parser.parse_args()
    modules = modules_of(options.targets)
    scores: dict[Path, Counter[str]] = {}
    failed = False
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copy = Path(folder)
        if not options.list:
            copy_clone(copy)
        try:
            for module in modules:
                counts = mutate_module(copy, module, options)
                if counts is None:
                    failed = True
                else:
                    scores[module] = counts
        except KeyboardInterrupt:
            failed = True
            print("interrupted: the scores below are of the modules that were completed")
    if not options.list:
        print_scores(scores)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
