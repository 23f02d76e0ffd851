"""Options of live commands, and the seam that loads their run.

Help and completion of a noun import the modules of all its verbs; rich and the online library
take longer than they may.
"""

from types import ModuleType
from typing import Annotated

from mqadmin.command.framework.declare import Option
from mqadmin.command.framework.values import duration_ms

Once = Annotated[bool, Option("--once", help="Print one table and exit, for scripts.")]
Interval = Annotated[
    int,
    Option(
        "--interval",
        metavar="DUR",
        help="Time between two measurements.",
        parse=duration_ms,
        shown="2s",
    ),
]


def load_run() -> ModuleType:
    """Return the module ``run``."""
    from mqadmin.command.live import run

    return run
