"""The metadata file: topics, groups, users, access rules, KV entries and broker settings.

An item without a broker name applies to every broker of a cluster, so that a file of one cluster
can be applied to another one. The file contains no passwords.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from broker.errors import ConfigError
from mqadmin.admin.plans.json_file import load_json, save_new

METADATA_SCHEMA: Final = "mqadmin.metadata/1"

#: Maximum size of a file: 10,000 topics and 10,000 groups are 10 MB.
FILE_LIMIT_BYTES: Final = 64 * 1024 * 1024

TOPIC: Final = "topic"
GROUP: Final = "group"
KV: Final = "kv"
USER: Final = "user"
ACL: Final = "acl"
SETTING: Final = "setting"
KINDS: Final = (TOPIC, GROUP, KV, USER, ACL, SETTING)

#: The name of the only object of the kind SETTING on a broker.
SETTINGS_NAME: Final = "settings"

#: Settings whose values contain secrets.
SECRET: Final = re.compile(r"password|secret|credential|initAuthenticationUser", re.IGNORECASE)


class MetadataItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One object: ``kind`` is one of KINDS, ``fields`` its wire names and values.

    ``brokerName`` None: the same on every broker. The name of a KV entry is ``NAMESPACE/KEY``; the
    fields of the kind acl are the resources, those of setting the settings.
    """

    kind: str
    name: str
    broker_name: str | None
    fields: Mapping[str, Any]


class MetadataFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of a file. ``cluster`` is the one exported, ``exportedTimestamp`` in ms."""

    cluster: str
    exported_timestamp: int
    items: Sequence[MetadataItem]
    schema: str = METADATA_SCHEMA


def save_metadata(path: str, content: MetadataFile) -> None:
    """Write a file that must not exist yet; ConfigError with the path otherwise."""
    save_new(path, content, "metadata file")


def load_metadata(path: str) -> MetadataFile:
    """Read a file; ConfigError with the path when it cannot be used."""
    content = load_json(
        path,
        MetadataFile,
        "metadata file",
        limit_bytes=FILE_LIMIT_BYTES,
        hint="mqadmin metadata export writes it",
    )
    if content.schema != METADATA_SCHEMA:
        raise ConfigError(f"metadata file {path}: schema {content.schema}, not {METADATA_SCHEMA}")
    for item in content.items:
        _check_item(path, item)
    return content


class AclRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The rule of one resource in an item of the kind acl; no ``sourceIps``: any address."""

    actions: list[str]
    source_ips: list[str]
    decision: str | None


def _check_item(path: str, item: MetadataItem) -> None:
    """ConfigError for an unknown kind, and for fields that are not those of the kind."""
    if item.kind not in KINDS:
        raise ConfigError(
            f"metadata file {path}: {item.kind!r:.80} is not a kind of object",
            "kinds: " + ", ".join(KINDS),
        )
    namespace, slash, key = item.name.partition("/")
    if not item.name or (item.kind == KV and not (namespace and slash and key)):
        raise ConfigError(
            f"metadata file {path}: {item.kind} {item.name!r:.80} is not a name",
            "the name of a KV entry is NAMESPACE/KEY",
        )
    types: dict[str, Any] = {
        KV: dict[Literal["value"], str],
        USER: dict[Literal["userType", "userStatus"], str | None],
        SETTING: dict[str, str],
        ACL: dict[str, AclRule],
    }
    try:
        msgspec.convert(item.fields, types.get(item.kind, dict[str, Any]))
    except msgspec.ValidationError as error:
        raise ConfigError(f"metadata file {path}: {item.kind} {item.name}: {error}") from error


def merged_items(
    kind: str, name: str, states: Mapping[str, Mapping[str, Any]], brokers: Sequence[str]
) -> list[MetadataItem]:
    """Return the items of one object; ``states`` are its fields by broker name.

    One item if every broker of ``brokers`` has the same fields, else one per broker. Settings that
    are the same on every broker are one item, the others one per broker.
    """
    fields = list(states.values())
    if set(states) == set(brokers) and all(one == fields[0] for one in fields):
        return [MetadataItem(kind=kind, name=name, broker_name=None, fields=fields[0])]
    common: dict[str, Any] = {}
    if kind == SETTING and set(states) == set(brokers):
        common = {
            key: value
            for key, value in fields[0].items()
            if all(key in one and one[key] == value for one in fields)
        }
    items = [MetadataItem(kind=kind, name=name, broker_name=None, fields=common)] if common else []
    for broker, own in sorted(states.items()):
        rest = {key: value for key, value in own.items() if key not in common}
        if rest or not common:
            items.append(MetadataItem(kind=kind, name=name, broker_name=broker, fields=rest))
    return items
