"""The man pages, generated: commands, options, settings and layouts come from their declarations.

Prose that nothing in the program says stands here, in :data:`PROSE`. Pages carry no date, so that
they change only when the program does.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from broker import __version__
from broker.namesrv import config as namesrv_config
from broker.namesrv import startup as namesrv_startup
from broker.server import config as broker_config
from broker.server import startup as broker_startup
from broker.store import config as store_config
from broker.store.format.layout import LAYOUTS, layout_troff
from mqadmin.command.declare import Argument, Noun, Option, Parameter, Verb
from mqadmin.command.declare import paragraphs as split
from mqadmin.command.face import ROOT_SENTENCE, ROOT_TEXT, load_noun
from mqadmin.command.nouns import NOUNS
from mqadmin.command.options import GLOBALS
from mqadmin.settings import SETTINGS

ROOT = Path(__file__).resolve().parent.parent
MAN = ROOT / "man"

EXIT_STATUSES = [
    ("0", "done"),
    ("1", "the answer is no: nothing found, gate not met, files differ"),
    ("2", "usage; a change without --yes where nobody can be asked"),
    ("3", "unreachable or out of time"),
    ("4", "refused: the peer answered with an error code, which the message names"),
    ("5", "done in part: some targets failed, or the result was cut"),
    ("6", "not authenticated or not permitted"),
    ("7", "a store file is damaged or unreadable"),
    ("8", "the state moved since the plan was made, or the read-back differs"),
    ("70", "a defect of the program itself"),
    ("130", "interrupted"),
]

PROSE = {
    "output": """
    Data goes to stdout, everything else to stderr. A table is drawn for people; no cell is cut
    when stdout is no terminal, and an absent value is a dash.

    With -o json the answer is one object with schema, items, truncated and errors, one item per
    line; a command about one thing gives that thing beside schema. -o ndjson gives one item per
    line without an envelope, written as it comes. Absent is null, 64-bit numbers are numbers,
    names are RocketMQ's own. Each time is given in epoch milliseconds (storeTimestamp) and as RFC
    3339 in UTC beside it (storeTime). -o schema prints the JSON schema of what a command emits.

    Errors are two lines on stderr, error: and hint:, or one JSON object with -o json and -o
    ndjson. A closed pipe is no error.
    """,
    "change": """
    A command that changes something first makes a plan: what each target has and what it would
    have. --dry-run shows the plan and ends. On a terminal the plan is shown and a yes is asked
    for; elsewhere --yes is needed, otherwise nothing is changed and the status is 2. After the
    change the result is read back and shown.
    """,
    "times": """
    Durations: 500ms, 10s, 5m, 2h, 7d. Times: RFC 3339, '2026-01-02 03:04' (local),
    yyyy-MM-dd#HH:mm:ss:SSS, now, -2h, and the epoch in seconds or milliseconds. The zone a time
    was read in is printed back.
    """,
    "mqbroker": """
    mqbroker stores messages and hands them to consumers. It speaks RocketMQ's remoting protocol,
    so RocketMQ clients of any language use it, and it reads and writes RocketMQ's store files: a
    store directory may move between this broker and a Java broker that is stopped.

    With --standalone a name server runs in the same process and nothing else is needed. Without
    --listen only loopback is served. SIGTERM stops in order: requests under way are answered,
    everything is flushed, the checkpoint is written and the abort file removed; a second SIGTERM
    ends at once.

    Settings come from the command line, then from the file of -c, then from the defaults; -p
    prints each with its origin. The keys are those of broker.conf(5).
    """,
    "mqnamesrv": """
    mqnamesrv keeps the routes of topics: brokers register with it every 30 seconds, and clients
    ask it which brokers have the queues of a topic. It keeps nothing on disk but its key-value
    entries.

    Settings come from the command line, then from the file of -c (Java properties), then from the
    defaults; -p prints each with its origin.
    """,
    "broker.conf": """
    broker.conf is a Java properties file: one key=value per line, # begins a comment, a backslash
    at the end of a line continues it. Keys are RocketMQ's, in camelCase. Keys that this broker
    does not read are kept and named once in a warning, so the file of a Java broker can be used
    as it is.

    A key marked (live) may be changed while the broker runs.
    """,
    "store": """
    A store directory holds what a broker has stored. The CommitLog has every message once, in the
    order of arrival; ConsumeQueues and IndexFiles are derived from it and can be built again. All
    integers are big-endian. Record files are named by the offset of their first byte, in 20
    decimal digits, IndexFiles by the local time of their making.
    """,
}

STORE_FILES = [
    ("commitlog/", "the CommitLog: files of mappedFileSizeCommitLog bytes, 1 GiB unless set"),
    ("consumequeue/TOPIC/QUEUE/", "one unit of 20 bytes per message: where it stands in the log"),
    ("batchconsumequeue/TOPIC/QUEUE/", "the same for topics of batches, units of 46 bytes (5.x)"),
    ("index/", "IndexFiles: hash tables from topic and key to the log"),
    ("checkpoint", "up to which time log, queues and index are surely on disk"),
    ("abort", "there while a broker runs: its absence says that it was stopped cleanly"),
    ("lock", "locked by the broker that owns the store"),
    ("config/", "topics, groups, consumer offsets and more as JSON, each with its last .bak"),
]


def roff(text: str) -> str:
    """Escape text for troff."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + text if text.startswith(".") else text


def head(name: str, section: int, title: str, sentence: str) -> Iterator[str]:
    """The opening of a page: header line, NAME."""
    manual = {1: "User Commands", 5: "File Formats", 8: "System Administration"}[section]
    yield f'.TH "{name.upper()}" "{section}" "" "mqadmin {__version__}" "{manual}"'
    yield from (".SH NAME", f"{roff(title)} \\- {roff(sentence)}")


def running(texts: list[str]) -> Iterator[str]:
    """Running text."""
    for text in texts:
        yield from (".PP", roff(text))


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
    """What an option means, with its default and its variable."""
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
    """One command: what it does, its options, its examples."""
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
        yield from running(["Takes --dry-run and --yes."])
    yield from verbatim(list(verb.examples))
    yield ".RE"


def noun_section(noun: Noun) -> Iterator[str]:
    """One noun: its concept, then its verbs."""
    yield f".SS mqadmin {noun.name}"
    yield from running(noun.paragraphs)
    for verb in noun.verbs.values():
        yield from verb_section(verb)


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
        yield from noun_section(load_noun(name))
    for title, key in (("CHANGES", "change"), ("OUTPUT", "output"), ("TIMES", "times")):
        yield f".SH {title}"
        yield from running(split(PROSE[key]))
    yield ".SH EXIT STATUS"
    for status, meaning in EXIT_STATUSES:
        yield from tagged(status, meaning)
    yield ".SH ENVIRONMENT"
    for setting in SETTINGS:
        if setting.env:
            yield from tagged(setting.env, f"Sets {setting.word}; an option beats it.")
    yield from tagged("MQADMIN_CONTEXT", "Names the context; --context beats it.")
    yield ".SH FILES"
    yield from tagged("$XDG_CONFIG_HOME/mqadmin/config.toml", "Contexts: named settings.")
    yield from (".SH SEE ALSO", "mqbroker(8), mqnamesrv(8), broker.conf(5), rocketmq\\-store(5)")


def daemon_options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The options of a daemon, as its argument parser has them."""
    yield ".SH OPTIONS"
    for action in parser._actions:
        value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
        term = ", ".join(action.option_strings)
        text = (action.help or "").replace("%(default)s", str(action.default))
        text = text.replace("show program's version number and exit", "print the version and end")
        text = text.replace("show this help message and exit", "print a short help and end")
        yield from tagged(f"{term} {value}".strip() if action.nargs != 0 else term, sentence(text))


def settings_list(values: object, declared: object) -> Iterator[str]:
    """Settings with default, unit and meaning, by key."""
    assert isinstance(declared, dict)
    for field, setting in sorted(declared.items(), key=lambda item: item[1].key.lower()):
        default = getattr(values, field)
        shown = str(default).lower() if isinstance(default, bool) else str(default)
        unit = f" {setting.unit}" if setting.unit else ""
        term = f"{setting.key}={shown}{unit}"
        yield from tagged(term, sentence(setting.meaning) + (" (live)" if setting.live else ""))


def mqbroker_page() -> Iterator[str]:
    """mqbroker(8)."""
    yield from head("mqbroker", 8, "mqbroker", "the broker daemon")
    yield from (".SH SYNOPSIS", "\\fBmqbroker\\fR [\\fIOPTIONS\\fR]")
    yield ".SH DESCRIPTION"
    yield from running(split(PROSE["mqbroker"]))
    yield from daemon_options(broker_startup.argument_parser())
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
    yield from running(split(PROSE["mqnamesrv"]))
    yield from daemon_options(namesrv_startup.argument_parser())
    yield ".SH SETTINGS"
    yield from settings_list(namesrv_config.NamesrvConfig(), namesrv_config.SETTINGS)
    yield from (".SH SEE ALSO", "mqbroker(8), mqadmin(1)")


def broker_conf_page() -> Iterator[str]:
    """broker.conf(5)."""
    yield from head("broker.conf", 5, "broker.conf", "settings of the broker")
    yield ".SH DESCRIPTION"
    yield from running(split(PROSE["broker.conf"]))
    yield ".SH BROKER"
    yield from settings_list(broker_config.BrokerConfig(), broker_config.SETTINGS)
    yield ".SH STORE"
    yield from settings_list(store_config.MessageStoreConfig(), store_config.SETTINGS)
    yield from (".SH SEE ALSO", "mqbroker(8), rocketmq\\-store(5)")


def store_page() -> Iterator[str]:
    """rocketmq-store(5)."""
    yield "'\\\" t"
    yield from head("rocketmq-store", 5, "rocketmq-store", "files of a broker's store")
    yield ".SH DESCRIPTION"
    yield from running(split(PROSE["store"]))
    yield ".SH FILES"
    for name, meaning in STORE_FILES:
        yield from tagged(name, sentence(meaning))
    yield from (".ad l", ".SH LAYOUTS")
    for layout in LAYOUTS:
        yield layout_troff(layout).rstrip("\n")
    yield from (".SH SEE ALSO", "mqadmin(1), mqbroker(8)")


PAGES = {
    "mqadmin.1": mqadmin_page,
    "mqbroker.8": mqbroker_page,
    "mqnamesrv.8": mqnamesrv_page,
    "broker.conf.5": broker_conf_page,
    "rocketmq-store.5": store_page,
}


def main() -> int:
    """Write the pages, or say which are stale."""
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.stderr.write("usage: scripts/man [--check]\n")
        return 2
    # a default that depends on the person who generates has no place in a page
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
        sys.stderr.write(f"error: man/{name}: not what the program says\n")
    if stale:
        sys.stderr.write("hint: scripts/man writes the pages anew\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
