"""``mqadmin help [TOPIC]`` and ``mqadmin man [PAGE]``."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.framework.declare import paragraphs
from mqadmin.command.guide.concepts import CONCEPTS, TASKS
from mqadmin.command.guide.plugins import find_program
from mqadmin.output.stdio import flush_out, stdout_is_terminal, terminal_columns, write_out

MAX_WIDTH = 100

#: Folders of man pages: of an installation, and of a source tree.
MAN_FOLDERS = (
    Path(sys.prefix) / "share" / "man",
    Path(__file__).resolve().parents[3] / "man",
)


def tasks_text() -> str:
    """Return the list of tasks, concepts and further pages."""
    lines = [
        "Tasks and the commands for them; 'mqadmin NOUN --help' lists all verbs of a noun.",
        "",
    ]
    for title, tasks in TASKS.items():
        lines.append(title)
        lines += [f"  {task:<40}  {command}" for task, command in tasks]
        lines.append("")
    lines.append("Concepts: mqadmin help TOPIC")
    lines += [f"  {name:<40}  {concept.summary}" for name, concept in CONCEPTS.items()]
    lines += ["", "Manual: mqadmin man PAGE", "  " + ", ".join(man_pages())]
    return "\n".join(lines).rstrip() + "\n"


def concept_text(name: str) -> str:
    """Return the page of a concept; UsageFault with the known names for another word."""
    concept = CONCEPTS.get(name.lower())
    if concept is None:
        raise UsageFault(f"no help about {name!r}", "one of " + ", ".join(CONCEPTS))
    width = min(terminal_columns(), MAX_WIDTH)
    blocks = [f"{name.upper()}: {concept.summary}"]
    blocks += [textwrap.fill(text, width) for text in paragraphs(concept.text)]
    blocks.append("\n".join(["Commands:", *(f"  {line}" for line in concept.commands)]))
    return "\n\n".join(blocks) + "\n"


def man_pages() -> dict[str, Path]:
    """Return page name → file, of the installation or of the source tree."""
    found: dict[str, Path] = {}
    for folder in MAN_FOLDERS:
        for path in sorted([*folder.glob("*.[1-8]"), *folder.glob("man?/*.[1-8]")]):
            name = path.stem
            if name.startswith(("mq", "rocketmq", "broker.conf")):
                found.setdefault(name, path)
    return found


def show_man(name: str) -> int:
    """Show a man page with the program ``man``, else as its source; return the status."""
    pages = man_pages()
    path = pages.get(name)
    if path is None:
        known = ", ".join(pages) or "none is installed"
        raise UsageFault(f"no man page {name!r}", f"one of {known}")
    program = find_program("man", os.environ)
    if program is not None:
        flush_out()
        # Without a terminal this process writes the text: groff reports a pipe that head closed.
        capture = None if stdout_is_terminal() else subprocess.PIPE
        done = subprocess.run([program, str(path)], stdout=capture, check=False)
        if done.returncode == 0:
            write_out((done.stdout or b"").decode("utf-8", "replace"))
            return 0
    write_out(path.read_text(encoding="utf-8"))
    return 0
