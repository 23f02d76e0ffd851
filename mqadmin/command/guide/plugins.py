"""Plug-ins: a program ``mqadmin-foo`` on PATH is the command ``mqadmin foo``.

As in git and kubectl a plug-in never replaces a command of mqadmin. It gets the remaining words
and the environment, with the name servers of ``--namesrv`` before its name in NAMESRV_ADDR.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from typing import NoReturn

PREFIX = "mqadmin-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def plugin_path(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the program of a plug-in, None if there is none."""
    if _NAME.fullmatch(name) is None:
        return None
    return shutil.which(PREFIX + name, path=environ.get("PATH"))


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
