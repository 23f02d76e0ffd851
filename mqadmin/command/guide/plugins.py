"""Plug-ins: a program ``mqadmin-foo`` on PATH is the command ``mqadmin foo``.

As in git and kubectl a plug-in never replaces a command of mqadmin. It gets the remaining words
and the environment, with the name servers of ``--namesrv`` before its name in NAMESRV_ADDR.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn

PREFIX = "mqadmin-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def plugin_path(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the program of a plug-in, None if there is none."""
    return None if _NAME.fullmatch(name) is None else find_program(PREFIX + name, environ)


def find_program(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the first program of a name on PATH; ``shutil`` would take a third of ``--help``."""
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder or ".", name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def plugin_names(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the plug-ins on PATH, sorted."""
    names: set[str] = set()
    for folder in environ.get("PATH", "").split(os.pathsep):
        try:
            entries = os.listdir(folder or ".")
        except OSError:
            continue
        names |= {
            entry.removeprefix(PREFIX)
            for entry in entries
            if entry.startswith(PREFIX) and os.access(os.path.join(folder, entry), os.X_OK)
        }
    return sorted(name for name in names if _NAME.fullmatch(name))


def run_plugin(path: str, words: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by the plug-in, so that signals and its exit status are its."""
    os.execve(path, [path, *words], dict(environ))
