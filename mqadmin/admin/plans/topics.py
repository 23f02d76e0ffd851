"""Plans of many topics, from a list: one request per broker for their configuration.

A list is plain text (one name per line, ``#`` starts a comment), CSV with a header, or JSON: a list
of objects, one object per line, or the output of ``mqadmin topic list -o json``.
"""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from broker.common.encoding.java_json import loads
from broker.common.topic import TopicConfig, check_topic_name, parse_perm
from broker.errors import ConfigError, RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.change import State
from mqadmin.admin.result import Plan
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import TopicAdmin
from mqadmin.admin.topology import Target

#: Topics in one list; also bounds the plan.
MAX_TOPICS = 10_000

FIELDS = (
    *("topic", "queues", "readQueueNums", "writeQueueNums", "perm", "order", "attributes"),
    *("clusterName", "brokerName"),
)


class TopicEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a list; None: not given. ``attributes`` are changes (``+name=value``)."""

    topic: str
    queues: int | None = None
    read_queues: int | None = None
    write_queues: int | None = None
    perm: int | None = None
    order: bool | None = None
    attributes: Sequence[str] = ()
    cluster: str | None = None
    broker: str | None = None

    def with_defaults(self, given: "TopicEntry") -> "TopicEntry":
        """Return the entry with the settings of ``given`` where it has none.

        ConfigError if both name a cluster, or a broker, and not the same one.
        """
        for word in ("cluster", "broker"):
            own, asked = getattr(self, word), getattr(given, word)
            if own and asked and own != asked:
                raise ConfigError(
                    f"topic {self.topic}: the list names {word} {own}, --{word} is {asked}",
                    f"omit --{word}, or remove {word}Name from the list",
                )
        return TopicEntry(
            topic=self.topic,
            queues=self.queues or given.queues,
            read_queues=self.read_queues or given.read_queues,
            write_queues=self.write_queues or given.write_queues,
            perm=given.perm if self.perm is None else self.perm,
            order=given.order if self.order is None else self.order,
            attributes=self.attributes or given.attributes,
            cluster=self.cluster or given.cluster,
            broker=self.broker or given.broker,
        )

    def settings(self) -> dict[str, Any]:
        """Return the arguments of ``TopicAdmin.plan_create`` and ``plan_update`` but the topic."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "topic"}


def parse_topic_list(text: str, source: str) -> list[TopicEntry]:
    """Read a list of topics; ``source`` names it in a ConfigError."""
    try:
        entries = [_entry(row) for row in _rows(text)]
    except (ValueError, RocketMQError) as error:
        raise ConfigError(
            f"topic list {source}: {error}",
            "one topic per line, or CSV or JSON with " + ", ".join(FIELDS),
        ) from error
    if not entries:
        raise ConfigError(f"topic list {source}: it names no topic")
    if len(entries) > MAX_TOPICS:
        raise ConfigError(f"topic list {source}: more than {MAX_TOPICS} topics", "split it")
    seen: dict[tuple[str, str | None], TopicEntry] = {}
    for entry in entries:
        if seen.setdefault((entry.topic, entry.broker or entry.cluster), entry) != entry:
            raise ConfigError(f"topic list {source}: topic {entry.topic} is named twice")
    return list(seen.values())


def _rows(text: str) -> Iterable[Mapping[str, Any]]:
    stripped = text.lstrip()
    if stripped.startswith("["):
        rows = loads(stripped)
    elif stripped.startswith("{"):
        try:
            document = loads(stripped)
            rows = document.get("items", [document]) if isinstance(document, dict) else document
        except RocketMQError:
            rows = [loads(line) for line in stripped.splitlines() if line.strip()]
    else:
        return _lines(text)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it is not a list of objects")
    return rows


def _lines(text: str) -> Iterable[Mapping[str, Any]]:
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    lines = [line for line in lines if line]
    if lines and "," in lines[0]:
        return [
            {name: cell for name, cell in row.items() if cell not in ("", "-", None)}
            for row in csv.DictReader(io.StringIO("\n".join(lines)), strict=True)
        ]
    return [{"topic": line} for line in lines]


def _entry(row: Mapping[str, Any]) -> TopicEntry:
    name = row.get("topic")
    if not isinstance(name, str) or not name:
        raise ValueError(f"no topic in {dict(row)!r:.80}")
    invalid = check_topic_name(name)
    if invalid:
        raise ValueError(f"topic {name!r:.80}: {invalid}")
    unknown = [word for word in row if word not in FIELDS]
    if unknown:
        raise ValueError(f"topic {name}: {unknown[0]!r:.40} is not a field")
    return TopicEntry(
        topic=name,
        queues=_number(row, "queues"),
        read_queues=_number(row, "readQueueNums"),
        write_queues=_number(row, "writeQueueNums"),
        perm=None if row.get("perm") is None else parse_perm(str(row["perm"])),
        order=_flag(row.get("order")),
        attributes=_attributes(row.get("attributes")),
        cluster=_text(row, "clusterName"),
        broker=_text(row, "brokerName"),
    )


def _number(row: Mapping[str, Any], name: str) -> int | None:
    value = row.get(name)
    if value is None:
        return None
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise ValueError(f"topic {row['topic']}: {name} {text!r:.40} is not a number of queues")
    return int(text)


def _text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"topic {row['topic']}: {name} {value!r:.40} is not a name")


def _flag(value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    words = {"true": True, "false": False}
    if str(value).lower() not in words:
        raise ValueError(f"order {value!r:.40} is not true or false")
    return words[str(value).lower()]


def _attributes(value: Any) -> list[str]:
    """Return ``+name=value`` words of a map, or of the text ``name=value;name=value``."""
    if not value:
        return []
    if isinstance(value, str) and value.startswith("{"):
        value = loads(value)
    if isinstance(value, dict):
        return [f"+{name}={text}" for name, text in value.items()]
    return [f"+{word.strip().lstrip('+')}" for word in str(value).split(";") if word.strip()]


class BulkTopics(TopicAdmin):
    """Plans of many topics; they read the topic table of each broker once, not topic by topic."""

    def __init__(self, admin: AdminSession) -> None:
        super().__init__(admin)
        self._admin = admin
        self._tables: dict[str, Mapping[str, TopicConfig] | RocketMQError] = {}

    def plan_many(self, kind: str, plans: Callable[[TopicAdmin], Iterable[Plan]]) -> Plan:
        """Join the plans of single topics to one plan of ``kind`` (``topic.create``)."""
        self._tables.clear()
        found = list(plans(self))
        return Plan(
            kind=kind,
            subject=f"{len({plan.subject for plan in found})} topics",
            changes=[
                msgspec.structs.replace(change, subject=plan.subject)
                for plan in found
                for change in plan.changes
            ],
            errors=list({repr(error): error for plan in found for error in plan.errors}.values()),
            warnings=[text for plan in found for text in plan.warnings],
        )

    def configs(
        self, targets: Sequence[Target], topic: str
    ) -> Sequence[TopicConfig | RocketMQError | None]:
        """Return the topic's configuration on each target from the table of the target."""
        self._read_tables(targets)
        found: list[TopicConfig | RocketMQError | None] = []
        for target in targets:
            table = self._tables[target.address]
            if isinstance(table, RocketMQError):
                found.append(table)
                continue
            config = table.get(topic)
            found.append(getattr(config, "topic_config", config))  # static topics have a mapping
        return found

    def _read_tables(self, targets: Sequence[Target]) -> None:
        new = [one.address for one in targets if one.address not in self._tables]
        request = RequestCode.GET_ALL_TOPIC_CONFIG
        answers = self._admin.call_all([(one, build_request(request, {})) for one in new])
        for address, answer in zip(new, answers, strict=True):
            self._tables[address] = (
                answer.value.topic_config_table if isinstance(answer, Reply) else answer
            )

    def _states(self, plan: Plan) -> Sequence[State | RocketMQError]:
        """Return the present state of each target; brokers report their tables again."""
        self._tables.clear()
        self._read_tables(
            [Target(address=one) for one in {c.address for c in plan.changes if c.step == 0}]
        )
        return [
            state
            for change in plan.changes
            for state in super(BulkTopics, self)._states(
                msgspec.structs.replace(plan, subject=plan.subject_of(change), changes=[change])
            )
        ]
