"""``mqadmin completion install``: the completion script where the shell looks for it."""

import os
from collections.abc import Mapping
from pathlib import Path

from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.framework.completion import SCRIPTS


def shell_of(environ: Mapping[str, str], wanted: str | None = None) -> str:
    """Return the shell to set up: ``wanted``, else that of SHELL; UsageFault if unsupported."""
    name = wanted or Path(environ.get("SHELL", "")).name
    if name not in SCRIPTS:
        raise UsageFault(
            f"no completion script for {name or 'this shell'!r}",
            "name one with --shell: " + ", ".join(SCRIPTS),
        )
    return name


def script_path(shell: str, environ: Mapping[str, str]) -> Path:
    """Return the file from which a shell loads the completion of ``mqadmin``."""
    home = Path(environ.get("HOME") or Path.home())
    if shell == "bash":
        data = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
        return data / "bash-completion" / "completions" / "mqadmin"
    if shell == "fish":
        config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
        return config / "fish" / "completions" / "mqadmin.fish"
    return Path(environ.get("ZDOTDIR") or home) / ".zfunc" / "_mqadmin"


def install(shell: str, environ: Mapping[str, str]) -> tuple[Path, str]:
    """Write the script; return its path and the next step. UsageFault if it cannot be written."""
    path = script_path(shell, environ)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(SCRIPTS[shell], encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise UsageFault(
            f"{path}: {error.strerror}", f"mqadmin --show-completion {shell} prints the script"
        ) from error
    steps = {
        "bash": "open a new shell (the package bash-completion must be installed)",
        "fish": "open a new shell",
        "zsh": f"add to .zshrc: fpath=({path.parent} $fpath); autoload -Uz compinit; compinit",
    }
    return path, steps[shell]
