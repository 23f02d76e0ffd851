"""The table of scripts/check --coverage: branch coverage of the packages that must have 90 %."""

import json
import sys
from pathlib import Path

PACKAGES = [
    "broker/store",
    "broker/remoting",
    "broker/server",
    "broker/client",
    "mqadmin/inspector",
    "mqadmin/repair",
]
GOAL_PERCENT = 90


def percent(covered: int, total: int) -> float:
    """A share in percent; nothing to cover counts as covered."""
    return 100 * covered / total if total else 100.0


def main() -> int:
    """Print the table from the JSON report of coverage.py named on the command line."""
    files = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["files"]
    head = (
        "PACKAGE",
        "MODULES",
        "LINES",
        "COVERED",
        "BRANCHES",
        "COVERED",
        "LEAST COVERED MODULES",
    )
    print("{:20} {:>7} {:>7} {:>7} {:>8} {:>7}  {}".format(*head))
    for package in PACKAGES:
        modules = {
            name: one["summary"] for name, one in files.items() if name.startswith(f"{package}/")
        }
        if not modules:
            sys.stderr.write(f"error: {package}: no module in the report\n")
            return 1
        sums = {
            key: sum(summary[key] for summary in modules.values())
            for key in ("num_statements", "covered_lines", "num_branches", "covered_branches")
        }
        lines = percent(sums["covered_lines"], sums["num_statements"])
        branches = percent(sums["covered_branches"], sums["num_branches"])
        shares = sorted(
            (
                percent(one["covered_branches"], one["num_branches"]),
                name.removeprefix(f"{package}/"),
            )
            for name, one in modules.items()
        )
        least = ", ".join(f"{name} {share:.0f} %" for share, name in shares[:3] if share < 100)
        print(
            f"{package:20} {len(modules):7} {sums['num_statements']:7} {lines:5.1f} %"
            f" {sums['num_branches']:8} {branches:5.1f} %"
            f"{'' if branches >= GOAL_PERCENT else ' *'} {least}"
        )
    print(f"* below {GOAL_PERCENT} % of the branches")
    return 0


if __name__ == "__main__":
    sys.exit(main())
