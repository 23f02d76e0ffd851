"""The man pages, generated: commands, options, settings and layouts come from their declarations.

Text that is not generated is in ``scripts/_man_text.py``. Pages carry no date, so that they change
only when the program does.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_bench"))

from _man_client import client_sections
from _man_java import java_sections
from _man_text import (
    CLUSTER_EXAMPLE,
    DAEMON_STATUSES,
    EXIT_STATUSES,
    PROSE,
    REPAIR_EXAMPLE,
    SOURCE_EXAMPLE,
    SOURCE_OPTIONS,
    STORE_FILES,
    TABLES,
)
from comparison.rendering import preface, table_rows
from comparison.results import decode

from broker import __version__
from broker.namesrv import config as namesrv_config
from broker.namesrv import startup as namesrv_startup
from broker.server import startup as broker_startup
from broker.server.configuration import config as broker_config
from broker.server.ha import config as ha_config
from broker.store import config as store_config
from broker.store.format.layout import LAYOUTS, layout_troff
from mqadmin.command.framework.declare import Argument, Noun, Option, Parameter, Verb
from mqadmin.command.framework.declare import paragraphs as split
from mqadmin.command.framework.nouns import NOUNS, load_noun
from mqadmin.command.framework.options import GLOBALS
from mqadmin.command.framework.typer_app import ROOT_SENTENCE, ROOT_TEXT
from mqadmin.pipeline.catalog import JOBS
from mqadmin.pipeline.job import Job
from mqadmin.settings import SETTINGS

ROOT = Path(__file__).resolve().parent.parent
MAN = ROOT / "man"
RESULT_FILE = ROOT / "scripts" / "_bench" / "results.json"


def roff(text: str) -> str:
    """Escape text for troff."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + text if text.startswith(".") else text


def head(name: str, section: int, title: str, sentence: str) -> Iterator[str]:
    """The opening of a page: header line, NAME."""
    manual = {
        1: "User Commands",
        5: "File Formats",
        7: "Miscellaneous Information",
        8: "System Administration",
    }[section]
    yield f'.TH "{name.upper()}" "{section}" "" "mqadmin {__version__}" "{manual}"'
    yield from (".SH NAME", f"{roff(title)} \\- {roff(sentence)}")


def running(texts: list[str]) -> Iterator[str]:
    """Running text."""
    for text in texts:
        yield from (".PP", roff(text))


def prose(key: str) -> Iterator[str]:
    """A text of :data:`PROSE`: paragraphs, and list items marked by a dash."""
    for text in split(PROSE[key]):
        if text.startswith("- "):
            yield from ('.IP "\\(bu" 2', roff(text[2:]))
        else:
            yield from running([text])


def grid(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """A table for tbl(1): the first row is the head, long cells are filled."""
    yield from (".ad l", ".TS", "tab(@);", " ".join(["lb"] * len(rows[0])))
    yield " ".join(["l", *["lx"] * (len(rows[0]) - 1)]) + "."
    yield "@".join(roff(cell) for cell in rows[0])
    for row in rows[1:]:
        yield "@".join(f"T{{\n{roff(cell)}\nT}}" if len(cell) > 16 else roff(cell) for cell in row)
    yield from (".TE", ".ad")


def sentence(text: str) -> str:
    """A meaning as a sentence; names like broker.conf keep their first letter."""
    first, _, _ = text.partition(" ")
    if first.isalpha() and first.islower():
        text = text[0].upper() + text[1:]
    return text.rstrip(".") + "."


def tagged(term: str, text: str) -> Iterator[str]:
    """A term in bold and its explanation."""
    yield from (".TP", f"\\fB{roff(term)}\\fR", roff(text))


def verbatim(lines: list[str]) -> Iterator[str]:
    """Lines as they are."""
    yield from (".PP", ".RS 4", ".nf", *(roff(line) for line in lines), ".fi", ".RE")


def option_term(parameter: Parameter) -> str:
    """An option as it is typed: names and value."""
    marker = parameter.marker
    assert isinstance(marker, Option)
    short = [name for name in marker.names if not name.startswith("--")]
    names = [*short, *(name for name in marker.names if name.startswith("--"))]
    if marker.negative:
        names.append(marker.negative)
    value = "" if parameter.is_flag else f" {parameter.metavar()}"
    return ", ".join(names) + value


def option_text(parameter: Parameter) -> str:
    """The meaning of an option, with its default and its variable."""
    marker = parameter.marker
    text = marker.help
    if parameter.shown_default:
        text += f" Default {parameter.shown_default}."
    if isinstance(marker, Option) and marker.env:
        text += f" Environment: {marker.env}."
    return text


def synopsis(verb: Verb) -> str:
    """The command line of a verb."""
    words = [f"mqadmin {verb.path}"]
    for parameter in verb.parameters:
        marker = parameter.marker
        if isinstance(marker, Argument):
            word = marker.metavar + ("..." if parameter.multiple else "")
            words.append(word if parameter.required else f"[{word}]")
        elif parameter.required:
            words.append(f"{marker.names[0]} {parameter.metavar()}")
    return " ".join([*words, "[OPTIONS]"])


def verb_section(verb: Verb) -> Iterator[str]:
    """One command: its effect, its options, its examples."""
    yield from (".TP", f"\\fB{roff(synopsis(verb))}\\fR", roff(verb.paragraphs[0]))
    yield ".RS"
    yield from running(verb.paragraphs[1:])
    for parameter in verb.parameters:
        if isinstance(parameter.marker, Argument):
            yield from tagged(parameter.marker.metavar, option_text(parameter))
    for parameter in verb.parameters:
        if isinstance(parameter.marker, Option):
            yield from tagged(option_term(parameter), option_text(parameter))
    if verb.changes:
        plan = ", --plan" if verb.plans else ""
        yield from running([f"Takes --dry-run{plan} and --yes."])
    yield from verbatim(list(verb.examples))
    yield ".RE"


def noun_section(noun: Noun) -> Iterator[str]:
    """One noun: its concept, then its verbs."""
    yield f".SS mqadmin {noun.name}"
    yield from running(noun.paragraphs)
    for verb in noun.verbs.values():
        yield from verb_section(verb)


def noun_summary(noun: Noun, page: str) -> Iterator[str]:
    """A noun with a separate page: its first paragraph and its verbs."""
    yield f".SS mqadmin {noun.name}"
    yield from running([noun.paragraphs[0]])
    for verb in noun.verbs.values():
        yield from tagged(verb.path, verb.paragraphs[0])
    yield from running([f"See {page}."])


def mqadmin_page() -> Iterator[str]:
    """mqadmin(1)."""
    yield from head("mqadmin", 1, "mqadmin", ROOT_SENTENCE[0].lower() + ROOT_SENTENCE[1:-1])
    yield from (".SH SYNOPSIS", "\\fBmqadmin\\fR [\\fIOPTIONS\\fR] \\fINOUN VERB\\fR ...")
    yield ".SH DESCRIPTION"
    yield from running(ROOT_TEXT)
    yield ".SH GLOBAL OPTIONS"
    for parameter in GLOBALS:
        yield from tagged(option_term(parameter), option_text(parameter))
    yield from tagged("--version", "Print the version.")
    yield from tagged("--show-completion SHELL", "Print the completion script: bash, zsh or fish.")
    yield ".SH COMMANDS"
    for name in NOUNS:
        noun = load_noun(name)
        page = f"mqadmin-{name}"
        own = f"{page}.1" in PAGES
        yield from noun_summary(noun, f"{page}(1)") if own else noun_section(noun)
    for title, key in (("CHANGES", "change"), ("OUTPUT", "output"), ("TIMES", "times")):
        yield f".SH {title}"
        yield from prose(key)
    yield ".SH EXIT STATUS"
    for status, meaning in EXIT_STATUSES:
        yield from tagged(status, meaning)
    yield ".SH ENVIRONMENT"
    for setting in SETTINGS:
        if setting.env:
            yield from tagged(setting.env, f"Sets {setting.word}; an option takes precedence.")
    yield from tagged("MQADMIN_CONTEXT", "Names the context; --context takes precedence.")
    yield ".SH FILES"
    yield from tagged("$XDG_CONFIG_HOME/mqadmin/config.toml", "Contexts: named settings.")
    yield from see_also(
        "mqadmin-store(1)", "mqadmin-pipeline(1)", "mqbroker(8)", "mqnamesrv(8)",
        "broker.conf(5)", "rocketmq-store(5)",
    )  # fmt: skip


def see_also(*pages: str) -> Iterator[str]:
    """The last section of a page."""
    yield from (".SH SEE ALSO", roff(", ".join(pages)))


def noun_page(name: str, title: str) -> Iterator[str]:
    """The opening of the page of one noun, with its commands."""
    noun = load_noun(name)
    yield "'\\\" t"
    yield from head(f"mqadmin-{name}", 1, f"mqadmin-{name}", title)
    yield from (".SH SYNOPSIS", f"\\fBmqadmin {name}\\fR \\fIVERB\\fR [\\fIOPTIONS\\fR]")
    yield ".SH DESCRIPTION"
    yield from running(noun.paragraphs)
    yield from running(["Global options, output, times and exit statuses: mqadmin(1)."])
    yield ".SH COMMANDS"
    for verb in noun.verbs.values():
        yield from verb_section(verb)


def mqadmin_store_page() -> Iterator[str]:
    """mqadmin-store(1)."""
    yield from noun_page("store", "inspect, verify and repair store files offline")
    yield ".SH REPAIR AND RECOVERY"
    yield from prose("repair")
    yield from verbatim(REPAIR_EXAMPLE)
    yield ".SH LIMITS OF VERIFICATION"
    yield from prose("limits")
    yield from see_also("mqadmin(1)", "mqbroker(8)", "rocketmq-store(5)", "mqbroker-performance(7)")


def job_section(job: Job) -> Iterator[str]:
    """One job: its result, its parameters, its tables, its example."""
    yield from (f".SS {roff(job.name)}", *running([job.summary, job.text]))
    for parameter in job.parameters:
        default = f" Default {parameter.default}." if parameter.default else ""
        yield from tagged(f"--param {parameter.name}=VALUE", sentence(parameter.meaning) + default)
    for table in job.tables:
        names = ", ".join(column.name for column in table.columns)
        yield from tagged(f"table {table.name}", f"{sentence(table.meaning)} Columns: {names}.")
    yield from verbatim([job.example])


def mqadmin_pipeline_page() -> Iterator[str]:
    """mqadmin-pipeline(1)."""
    yield from noun_page("pipeline", "analyse message history in store files with Spark")
    yield ".SH RUNNING A JOB"
    yield from prose("pipeline")
    yield ".SH JOBS"
    for job in JOBS.values():
        yield from job_section(job)
    yield ".SH DATA SOURCES"
    yield from prose("sources")
    yield from verbatim(SOURCE_EXAMPLE)
    for name, meaning in SOURCE_OPTIONS:
        yield from tagged(name, sentence(meaning))
    yield ".SH CLUSTERS"
    yield from prose("cluster")
    yield from verbatim(CLUSTER_EXAMPLE)
    yield ".SH PERFORMANCE"
    for text, table in (
        ("pipeline-performance", "pipeline"),
        ("pipeline-commands", "pipeline-commands"),
    ):
        yield from prose(text)
        yield from grid(TABLES[table])
    yield from prose("break-even")
    yield from see_also("mqadmin(1)", "mqadmin-store(1)", "rocketmq-store(5)")


def performance_page() -> Iterator[str]:
    """mqbroker-performance(7)."""
    yield "'\\\" t"
    yield from head(
        "mqbroker-performance", 7, "mqbroker-performance", "measured rates and crash tests"
    )
    yield ".SH DESCRIPTION"
    yield from prose("performance")
    yield ".SH BROKER"
    results = decode(RESULT_FILE.read_text(encoding="utf-8"))
    yield roff(preface(results))
    yield from grid(
        [tuple(cell.replace("`", "") for cell in row) for row in table_rows(results, cpu=True)]
    )
    yield ".PP"
    yield from prose("bench-more")
    yield from grid(TABLES["java"])
    yield ".SH VECTORIZED INGEST"
    yield from prose("ingest")
    yield ".SH MANY QUEUES"
    yield from prose("many-queues")
    yield ".SH STORE"
    yield from prose("bench-store")
    yield from grid(TABLES["store"])
    yield ".SH COMMANDS"
    yield from prose("bench-cli")
    yield ".SH CRASH TESTS"
    yield from prose("torture")
    yield from see_also("mqbroker(8)", "mqadmin-store(1)", "mqadmin-pipeline(1)")


def daemon_options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The options of a daemon, as its argument parser has them."""
    yield ".SH OPTIONS"
    for action in parser._actions:
        value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
        term = ", ".join(action.option_strings)
        text = (action.help or "").replace("%(default)s", str(action.default))
        text = text.replace("show program's version number and exit", "print the version and exit")
        text = text.replace("show this help message and exit", "print a short help and exit")
        yield from tagged(f"{term} {value}".strip() if action.nargs != 0 else term, sentence(text))


def settings_list(values: object, declared: object) -> Iterator[str]:
    """Settings with default, unit, meaning and bounds, by key."""
    assert isinstance(declared, dict)
    for field, setting in sorted(declared.items(), key=lambda item: item[1].key.lower()):
        default = getattr(values, field)
        shown = str(default).lower() if isinstance(default, bool) else str(default)
        unit = f" {setting.unit}" if setting.unit else ""
        term = f"{setting.key}={shown}{unit}"
        notes = [] if setting.bounds is None else ["{} to {}".format(*setting.bounds)]
        notes += ["live"] if setting.live else []
        note = f" ({', '.join(notes)})" if notes else ""
        yield from tagged(term, sentence(setting.meaning) + note)


def mqbroker_page() -> Iterator[str]:
    """mqbroker(8)."""
    yield from head("mqbroker", 8, "mqbroker", "the broker daemon")
    yield from (".SH SYNOPSIS", "\\fBmqbroker\\fR [\\fIOPTIONS\\fR]")
    yield ".SH DESCRIPTION"
    yield from prose("mqbroker")
    yield from daemon_options(broker_startup.argument_parser())
    yield ".SH EXIT STATUS"
    for status, meaning in DAEMON_STATUSES:
        yield from tagged(status, meaning)
    yield ".SH EXAMPLES"
    yield from verbatim(
        [
            "mqbroker --standalone --store ./store",
            "mqbroker -c broker.conf -n '10.0.0.1:9876;10.0.0.2:9876'",
            "mqbroker -c broker.conf -p",
        ]
    )
    yield from (".SH SEE ALSO", "mqnamesrv(8), mqadmin(1), broker.conf(5), rocketmq\\-store(5)")


def mqnamesrv_page() -> Iterator[str]:
    """mqnamesrv(8)."""
    yield from head("mqnamesrv", 8, "mqnamesrv", "the name server daemon")
    yield from (".SH SYNOPSIS", "\\fBmqnamesrv\\fR [\\fIOPTIONS\\fR]")
    yield ".SH DESCRIPTION"
    yield from prose("mqnamesrv")
    yield from daemon_options(namesrv_startup.argument_parser())
    yield ".SH EXIT STATUS"
    for status, meaning in DAEMON_STATUSES:
        if status != "4":  # a name server has no store
            yield from tagged(status, meaning.replace(" and the store", ""))
    yield ".SH SETTINGS"
    yield from settings_list(namesrv_config.NamesrvConfig(), namesrv_config.SETTINGS)
    yield from (".SH SEE ALSO", "mqbroker(8), mqadmin(1)")


def broker_conf_page() -> Iterator[str]:
    """broker.conf(5)."""
    yield from head("broker.conf", 5, "broker.conf", "settings of the broker")
    yield ".SH DESCRIPTION"
    yield from prose("broker.conf")
    yield ".SH BROKER"
    yield from settings_list(broker_config.BrokerConfig(), broker_config.SETTINGS)
    yield ".SH STORE"
    yield from settings_list(store_config.MessageStoreConfig(), store_config.SETTINGS)
    yield ".SH REPLICATION"
    yield from settings_list(ha_config.HaConfig(), ha_config.SETTINGS)
    yield from (".SH SEE ALSO", "mqbroker(8), rocketmq\\-store(5)")


def store_page() -> Iterator[str]:
    """rocketmq-store(5)."""
    yield "'\\\" t"
    yield from head("rocketmq-store", 5, "rocketmq-store", "files of a broker's store")
    yield ".SH DESCRIPTION"
    yield from prose("store")
    yield ".SH FILES"
    for name, meaning in STORE_FILES:
        yield from tagged(name, sentence(meaning))
    yield from (".ad l", ".SH LAYOUTS")
    for layout in LAYOUTS:
        yield layout_troff(layout).rstrip("\n")
    yield from (".SH SEE ALSO", "mqadmin(1), mqbroker(8)")


def client_page() -> Iterator[str]:
    """rocketmq-client(7)."""
    yield from head("rocketmq-client", 7, "rocketmq-client", "produce and consume from Python")
    yield ".SH DESCRIPTION"
    yield from prose("client")
    yield from client_sections(roff)
    yield from (".SH SEE ALSO", "mqadmin(1), mqbroker(8)")


def java_page() -> Iterator[str]:
    """mqadmin-java(7)."""
    yield from head("mqadmin-java", 7, "mqadmin-java", "the commands of RocketMQ's Java tool")
    yield ".SH DESCRIPTION"
    yield from prose("java")
    yield ".SH COMMANDS"
    yield from java_sections(roff, grid)
    yield from (".SH SEE ALSO", "mqadmin(1)")


PAGES = {
    "mqadmin.1": mqadmin_page,
    "mqadmin-store.1": mqadmin_store_page,
    "mqadmin-pipeline.1": mqadmin_pipeline_page,
    "mqadmin-java.7": java_page,
    "mqbroker-performance.7": performance_page,
    "mqbroker.8": mqbroker_page,
    "mqnamesrv.8": mqnamesrv_page,
    "broker.conf.5": broker_conf_page,
    "rocketmq-store.5": store_page,
    "rocketmq-client.7": client_page,
}


def main() -> int:
    """Write the pages, or name those that are stale."""
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.stderr.write("usage: scripts/man [--check]\n")
        return 2
    # defaults must not depend on the account that generates the pages
    os.environ["HOME"] = "/nonexistent"
    MAN.mkdir(exist_ok=True)
    stale = []
    for name, page in PAGES.items():
        text = "\n".join(page()) + "\n"
        path = MAN / name
        if check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(name)
        else:
            path.write_text(text, encoding="utf-8")
    for name in stale:
        sys.stderr.write(f"error: man/{name}: differs from the declarations\n")
    if stale:
        sys.stderr.write("hint: scripts/man regenerates the pages\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
