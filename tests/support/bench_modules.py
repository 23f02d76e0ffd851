"""Modules of scripts/_bench, which import each other as the scripts do: from their folder."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "scripts" / "_bench"


def bench_module(name: str) -> ModuleType:
    """Import one, for example ``comparison.machine``."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)
