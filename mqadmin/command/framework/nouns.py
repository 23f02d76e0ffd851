"""The nouns by name, and the seam of lazy loading: a noun's module is imported when it is used.

Help and completion of the first word use this table alone. Below it imports are ordinary, with the
exceptions that their modules explain: the online library (``online.py``), output and schemas
(``session.py``), and the optional libraries of the extras. A test compares each summary with the
first paragraph of the noun's text.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any, Final, NamedTuple, Protocol

from mqadmin.command.framework.declare import Noun, Verb


class NounEntry(NamedTuple):
    """The module that declares a noun in its variable ``NOUN``, and a sentence about the noun.

    ``verbs`` are the modules of verbs that are not declared in the noun's own module: a command
    line that names such a verb loads no other.
    """

    module: str
    summary: str
    verbs: Mapping[str, str] = MappingProxyType({})


NOUNS: Final[dict[str, NounEntry]] = {
    "topic": NounEntry(
        "topic",
        "Create, inspect, change and delete topics.",
        {
            **dict.fromkeys(("create", "update", "perm", "delete"), "topics.changes"),
            "static": "topics.static",
            "stats": "live.topic_load",
            "top": "live.topic_load",
        },
    ),
    "msg": NounEntry(
        "message",
        "Find, show, send, follow, produce, consume and trace messages.",
        {
            "produce": "bulk.produce",
            "consume": "bulk.consume",
            "track": "tracing.track",
            "trace": "tracing.trace",
            "resend": "bulk.resend",
            "consume-directly": "clients.directly",
        },
    ),
    "group": NounEntry("group", "Create, inspect, change and delete consumer groups."),
    "producer": NounEntry("clients.producer", "Show connected producers."),
    "consumer": NounEntry(
        "consumer",
        "Show consumers: connected clients and lag.",
        {
            "lag": "lags.verb",
            "mode": "pop.mode",
            "doctor": "doctor.consumer",
            "running": "clients.running",
            "stack": "clients.running",
            "stats": "clients.consume_stats",
        },
    ),
    "offset": NounEntry(
        "offset",
        "Show, reset, export, import and clone consumer offsets.",
        dict.fromkeys(("export", "import", "clone", "undo", "at"), "saved_offsets.verbs"),
    ),
    "dlq": NounEntry(
        "dlq",
        "List, show, count, export, replay and skip dead letters.",
        {
            **dict.fromkeys(("stats", "export"), "dead_letters.verbs"),
            "purge": "dead_letters.purge",
        },
    ),
    "tx": NounEntry("tx.noun", "List and resume transactions that are not decided."),
    "delay": NounEntry("delay.noun", "Show delay levels and the messages that wait in them."),
    "timer": NounEntry("timer.noun", "List and recall timer messages that wait for their time."),
    "cluster": NounEntry(
        "cluster",
        "List clusters and their brokers.",
        {"doctor": "doctor.cluster", "top": "live.cluster_top"},
    ),
    "namesrv": NounEntry(
        "maintenance.namesrv",
        "Show and change name servers: configuration, KV configuration, write permissions.",
    ),
    "broker": NounEntry(
        "broker",
        "Show the status and configuration of brokers, and change their roles.",
        {
            "status": "broker",
            "config": "maintenance.broker",
            "ha": "broker",
            "connections": "maintenance.broker",
            "clean": "maintenance.broker",
            "stats": "maintenance.broker",
            "promote": "failover.verbs",
            "demote": "failover.verbs",
        },
    ),
    "metadata": NounEntry("metadata.noun", "Export, compare and apply the metadata of a cluster."),
    "user": NounEntry(
        "access.user", "List, create, change and delete users of brokers with ACL 2.0."
    ),
    "acl": NounEntry(
        "access.acl", "List, create, change and delete access rules of brokers with ACL 2.0."
    ),
    "store": NounEntry(
        "store.noun",
        "Inspect, verify and repair store files offline.",
        {
            "inspect": "store.inspect",
            "find": "store.find",
            "verify": "store.verify",
            "queue": "store.tables",
            "index": "store.tables",
            "config": "store.tables",
            "layout": "store.layout",
            "diff": "store.diff",
            "stats": "store.directory.stats",
            "copy": "store.directory.copy",
            "trim": "store.directory.trim",
            "watch": "store.watch",
            "repair": "store.repair",
            "recover": "store.repair",
            "export": "store.export",
            "import": "store.sending.importing",
        },
    ),
    "check": NounEntry(
        "check.noun",
        "Check a cluster against thresholds, for monitoring systems.",
        {
            word: f"check.{word}"
            for word in (
                *("broker", "lag", "dlq", "disk", "replication"),
                *("namesrv", "store", "clock", "certificate"),
            )
        },
    ),
    "pipeline": NounEntry("pipeline", "Analyse the history in store files with Spark."),
    "bench": NounEntry("bench.noun", "Measure rates and latencies of a cluster."),
    "apply": NounEntry("plans.apply", "Apply a plan that was written to a file."),
    "java": NounEntry(
        "java.noun", "Run the sub-commands of RocketMQ's Java tool under their own names."
    ),
    "context": NounEntry("context", "Manage named settings for several clusters."),
}


#: Words besides nouns (``mqadmin.command.guide``) → sentence for completion and help.
WORDS: Final[dict[str, str]] = {
    "help": "List tasks with their commands, or explain a concept.",
    "man": "Show a page of the manual.",
    "completion": "Install the completion of commands and names for a shell.",
}


def load_guide() -> ModuleType:
    """Import the module that implements WORDS and plug-ins."""
    return import_module("mqadmin.command.guide.commands")


def live_run() -> ModuleType:
    """Import the run of commands with a live screen, which imports rich."""
    return import_module("mqadmin.command.live.run")


def load_noun(name: str, verb: str = "") -> Noun:
    """Import the module of a noun and return its declaration.

    With ``verb``, of a noun whose verbs are in several modules only that of the verb is imported:
    none besides the noun's own if it declares the verb.
    """
    entry = NOUNS[name]
    noun = import_module(f"mqadmin.command.{entry.module}").NOUN
    assert isinstance(noun, Noun), name
    if verb in entry.verbs:
        wanted = [entry.verbs[verb]]
    elif any(words[:1] in ((verb,), ()) for words in noun.verbs):
        wanted = []
    else:
        wanted = list(entry.verbs.values())
    for module in dict.fromkeys(wanted):
        import_module(f"mqadmin.command.{module}")
    return noun


#: The nouns after which a Java name may follow, or which are one themselves.
JAVA_NOUNS: Final = frozenset({"java", "producer"})


class JavaWords(Protocol):
    """A command line with a Java name: its global options by name, before they are resolved."""

    @property
    def options(self) -> dict[str, Any]:
        """The global options given after the name."""
        ...


def load_java_verb(words: Sequence[str]) -> tuple[Verb, JavaWords] | None:
    """Return the command of RocketMQ's Java tool that ``words`` name, None if they name none.

    Called for words that are not a noun and a verb: only then the table of Java's names is loaded.
    """
    if words[0] in NOUNS and words[0] not in JAVA_NOUNS:
        return None
    found: tuple[Verb, JavaWords] | None
    found = import_module("mqadmin.command.java.lookup").java_verb(words)
    return found
