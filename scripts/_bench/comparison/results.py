"""The result file: JSON with the environment, the options and every run; ratios are not stored.

::

    {"schema": 1,
     "environment": {"date", "commit", "cpus", "cpu_model", "memory_mib", "kernel", "versions"},
     "options": {"pairs", "seconds", "warm_up"},
     "rows": [{"workload": NAME,
               "runs": {TARGET: [{"figures": {NAME: NUMBER}, "other_pct", "steal_pct", "load",
                                  "attempt"}]}}]}
"""

import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from comparison.machine import MachineState
from comparison.measuring import Row, Run

SCHEMA = 1
PACKAGES = ("mqadmin", "uvloop", "numpy", "numba")
ENVIRONMENT = {"date", "commit", "cpus", "cpu_model", "memory_mib", "kernel", "versions"}


class ResultError(Exception):
    """A result file that does not follow the schema."""


@dataclass
class Results:
    """Everything measured by one call."""

    environment: dict[str, object]
    options: dict[str, float]
    rows: list[Row] = field(default_factory=list)

    def row(self, workload: str) -> Row:
        """The row of a workload, added if it is missing."""
        for row in self.rows:
            if row.workload == workload:
                return row
        self.rows.append(Row(workload))
        return self.rows[-1]

    def with_rows_of(self, before: "Results | None") -> "Results":
        """These rows and those of an earlier measurement that were not repeated, in its order."""
        if before is None:
            return self
        for name in ("cpus", "cpu_model", "kernel"):
            if before.environment[name] != self.environment[name]:
                raise ResultError(f"measured with another {name}: {before.environment[name]}")
        repeated = {row.workload: row for row in self.rows}
        rows = [repeated.pop(row.workload, row) for row in before.rows]
        return Results(self.environment, self.options, [*rows, *repeated.values()])


def _first_match(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1].strip() if found else ""


def _output(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout + done.stderr


def read_environment(root: Path, java_home: str) -> dict[str, object]:
    """The environment; ``java_home``: name of the folder of the Java broker's jars, or empty."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    if java_home:
        versions["java"] = _first_match(r'version "([^"]+)"', _output("java", "-version"))
        versions["rocketmq"] = _first_match(r"java-([\d.]+)", java_home)
    commit = _output("git", "-C", str(root), "rev-parse", "--short=12", "HEAD").strip()
    changed = _output("git", "-C", str(root), "status", "--porcelain", "--untracked-files=no")
    cpu_info = Path("/proc/cpuinfo").read_text()
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit + ("+changes" if changed.strip() else ""),
        "cpus": os.cpu_count() or 1,
        "cpu_model": _first_match(r"^model name\s*:(.*)$", cpu_info),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": platform.release(),
        "versions": versions,
    }


def _encode_run(run: Run) -> dict[str, object]:
    figures = {name: float(f"{value:.6g}") for name, value in run.figures.items()}
    state = {name: round(value, 2) for name, value in run.state._asdict().items()}
    return {"figures": figures, **state, "attempt": run.attempt}


def encode(results: Results) -> str:
    """The text of a result file, one run per line."""
    lines = ["{", f' "schema": {SCHEMA},']
    lines.append(f' "environment": {json.dumps(results.environment)},')
    lines.append(f' "options": {json.dumps(results.options)},')
    rows = []
    for row in results.rows:
        targets = []
        for target, runs in row.runs.items():
            texts = ",\n".join(f"    {json.dumps(_encode_run(run))}" for run in runs)
            targets.append(f"   {json.dumps(target)}: [\n{texts}\n   ]")
        text = ",\n".join(targets)
        rows.append(f'  {{"workload": {json.dumps(row.workload)}, "runs": {{\n{text}\n  }}}}')
    lines.append(' "rows": [\n' + ",\n".join(rows) + "\n ]\n}\n")
    return "\n".join(lines)


def _decode_run(entry: dict[str, object]) -> Run:
    figures, attempt = entry["figures"], entry["attempt"]
    if not isinstance(figures, dict) or not isinstance(attempt, int):
        raise ResultError("figures must be an object, attempt an integer")
    numbers = [entry[name] for name in MachineState._fields]
    for value in (*figures.values(), *numbers):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ResultError(f"{value!r} is not a number")
    return Run(dict(figures), MachineState(*map(float, map(str, numbers))), attempt)


def decode(text: str) -> Results:
    """Read the text of a result file; ResultError if it does not follow the schema."""
    try:
        content = json.loads(text)
        if content["schema"] != SCHEMA:
            raise ResultError(f"schema {content['schema']!r}, this program reads {SCHEMA}")
        missing = ENVIRONMENT - content["environment"].keys()
        if missing:
            raise ResultError(f"environment without {', '.join(sorted(missing))}")
        results = Results(content["environment"], content["options"])
        for row in content["rows"]:
            for target, runs in row["runs"].items():
                for run in runs:
                    results.row(row["workload"]).add(target, _decode_run(run))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultError(f"not a result file: {type(error).__name__}: {error}") from error
    return results
