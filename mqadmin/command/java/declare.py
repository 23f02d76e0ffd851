"""Registration of Java's sub-commands: ``@java_command("topicRoute")`` on a function of a call."""

from collections.abc import Callable
from typing import Final

from mqadmin.command.java.call import JavaCall

Function = Callable[[JavaCall], None]


class JavaCommand:
    """One sub-command that is available: its function, and whether it changes something."""

    __slots__ = ("changes", "function", "name")

    def __init__(self, name: str, function: Function, *, changes: bool) -> None:
        self.name = name
        self.function = function
        self.changes = changes


COMMANDS: Final[dict[str, JavaCommand]] = {}
"""The commands of the modules imported so far, by Java's name."""


def java_command(name: str, *, changes: bool = False) -> Callable[[Function], Function]:
    """Register the decorated function as Java's sub-command ``name``.

    ``changes`` is true for a command that changes something.
    """

    def register(function: Function) -> Function:
        COMMANDS[name] = JavaCommand(name, function, changes=changes)
        return function

    return register
