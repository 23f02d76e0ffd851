"""The table from Java's names to ours: for mqadmin-java(7), and as Markdown for the README.

Run as a program it prints the Markdown. Both come from ``mqadmin.command.java.names``.
"""

import sys
from collections.abc import Callable, Iterator

from mqadmin.command.java.names import JAVA_NAMES, JavaName

#: Sections of the table: a title and the packages or modules of the names in it.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Topics": ("cluster.topic", "cluster.topic_change", "cluster.static_topic"),
    "Consumers and offsets": ("client.",),
    "Messages": ("message.", "cluster.send"),
    "Brokers, cluster and name server": (
        "cluster.broker",
        "cluster.cluster",
        "cluster.namesrv",
        "cluster.statistics",
        "cluster.cold_data",
    ),
    "Replication and controller": ("cluster.replication", "cluster.controller"),
    "Users and ACLs": ("access.",),
    "Files and RocksDB": ("files.", "cluster.rocksdb"),
}

HEAD = ("Java mqadmin", "mqadmin")


def available() -> list[JavaName]:
    """The names, each once: an alias is the same row."""
    return list(dict.fromkeys(JAVA_NAMES.values()))


def sections() -> dict[str, list[JavaName]]:
    """Title → names; ValueError for a name that belongs to no section or to two."""
    found: dict[str, list[JavaName]] = {title: [] for title in SECTIONS}
    for row in available():
        titles = [
            title
            for title, places in SECTIONS.items()
            if any(
                row.module.startswith(place) if place.endswith(".") else row.module == place
                for place in places
            )
        ]
        if len(titles) != 1:
            raise ValueError(f"{row.name} ({row.module}): sections {titles}")
        found[titles[0]].append(row)
    return found


def equivalent(row: JavaName) -> str:
    """The command with noun and verb, or the Java name itself where there is none."""
    return f"mqadmin {row.equivalent or row.name}"


def java_sections(
    roff: Callable[[str], str], grid: Callable[[list[tuple[str, ...]]], Iterator[str]]
) -> Iterator[str]:
    """The sections of mqadmin-java(7)."""
    for title, rows in sections().items():
        yield f".SS {roff(title)}"
        yield from grid([HEAD, *((row.name, equivalent(row)) for row in rows)])


def markdown() -> Iterator[str]:
    """The lines of the table for the README; names without an equivalent share the last line."""
    yield f"| {HEAD[0]} | {HEAD[1]} |"
    yield "|---|---|"
    alone: list[str] = []
    for rows in sections().values():
        same: dict[str, list[str]] = {}
        for row in rows:
            if row.equivalent:
                same.setdefault(row.equivalent, []).append(f"`{row.name}`")
            else:
                alone.append(f"`{row.name}`")
        for command, names in same.items():
            yield f"| {' '.join(names)} | `{command}` |"
    yield f"| {' '.join(alone)} | the same name |"


if __name__ == "__main__":
    sys.stdout.write("\n".join(markdown()) + "\n")
