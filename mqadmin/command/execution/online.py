"""The online library, loaded when a command runs: the one seam below the table of nouns.

Help, usage errors and completion import the module of a noun, too, but need no library; protocol,
sockets and records cost 15 ms of CPU time, as much as the bare interpreter. So command modules get
the library of their noun from the functions here. ``ssl`` and ``httpx`` cost more than all of that
and are imported for TLS, signatures and name server discovery only.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.common.address import parse_address
from broker.errors import LocalProtocolError
from mqadmin.command.execution.failure import UsageFault
from mqadmin.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mqadmin.admin.broker import BrokerAdmin
    from mqadmin.admin.cluster import ClusterAdmin
    from mqadmin.admin.consumer import ConsumerAdmin
    from mqadmin.admin.dlq.dead_letters import DeadLetter
    from mqadmin.admin.dlq.library import DlqAdmin
    from mqadmin.admin.dlq.purge import DlqPurger
    from mqadmin.admin.group import GroupAdmin
    from mqadmin.admin.lags.all_groups import GroupLag
    from mqadmin.admin.message.decoded_id import DecodedId
    from mqadmin.admin.message.library import MessageAdmin
    from mqadmin.admin.message.query import MessageQueries
    from mqadmin.admin.message.record import BodyView
    from mqadmin.admin.metadata.library import MetadataAdmin, Scope
    from mqadmin.admin.metadata.metadata_file import MetadataFile
    from mqadmin.admin.offset.library import OffsetAdmin
    from mqadmin.admin.offset.reset import ResetPlan
    from mqadmin.admin.plans.topics import BulkTopics, TopicEntry
    from mqadmin.admin.result import Listing, Plan
    from mqadmin.admin.session import AdminSession, ClusterAccess
    from mqadmin.admin.topic import TopicAdmin
    from mqadmin.admin.topics.queries import AllocationRecord
    from mqadmin.admin.topics.static_plans import StaticTopicAdmin
    from mqadmin.message_row import MessageRow
    from mqadmin.traffic.imports.run import ImportLibrary
    from mqadmin.traffic.library import TrafficLibrary
    from mqadmin.traffic.produce import ProduceLibrary

Trace = Callable[[str, int | None, str, float], None]


def connect(settings: Settings, trace: Trace | None) -> "AdminSession":
    """Open a session with the cluster of the settings."""
    access = cluster_access(settings)
    if access.namesrv_url:
        from mqadmin.admin.connect.discovery import discovered

        access = discovered(access)
    return access.session(trace)


def cluster_access(settings: Settings) -> "ClusterAccess":
    """Return how to reach the cluster of the settings; nothing is connected."""
    from mqadmin.admin.session import ClusterAccess

    check_namesrv(settings, settings.namesrv)
    plain = ClusterAccess(
        namesrv=tuple(settings.namesrv),
        timeout_ms=settings.timeout_ms,
        address_map=dict(settings.address_map),
    )
    access_key, secret = _account(settings)
    files = _tls_files(settings)
    if not access_key and files is None:
        return plain
    from mqadmin.admin.connect.access import account, tls_context

    return ClusterAccess(
        namesrv=plain.namesrv,
        timeout_ms=plain.timeout_ms,
        address_map=plain.address_map,
        credentials=account(access_key, secret) if access_key and secret else None,
        tls=None if files is None else tls_context(**files),
    )


def _account(settings: Settings) -> "tuple[str | None, str | None]":
    """Return access key and secret; UsageFault for one without the other."""
    word = settings.secret_word
    if word and not settings.text("access-key"):
        given, file = settings.effective[word], settings.effective["tools-yml"]
        if given.rank >= file.rank:  # else the account of the file is used
            raise UsageFault(
                f"{word} ({given.origin}): no access key is given",
                f"give --access-key or set MQADMIN_ACCESS_KEY, or omit {word}",
            )
    if settings.account_file is not None:
        from mqadmin.command.execution.tools_yml import java_account

        found = java_account(settings.account_file)
        if found is None and settings.effective["tools-yml"].rank:
            raise UsageFault(
                f"{settings.account_file} has no accessKey and secretKey",
                "write both, or omit --tools-yml",
            )
        return found or (None, None)
    access_key = settings.text("access-key")
    secret = settings.secret() if access_key else None
    if access_key and settings.secret_word == "secret-key-command":
        from mqadmin.command.execution.secret_command import printed_secret

        secret = printed_secret(settings.text("secret-key-command") or "", settings.timeout_ms)
    if access_key and not secret:
        raise UsageFault(
            f"access key {access_key!r} is given, but no secret",
            "set MQADMIN_SECRET_KEY, or give --secret-key-file or --secret-key-command",
        )
    return access_key, secret


def _tls_files(settings: Settings) -> "dict[str, str | None] | None":
    """Return the files of a TLS connection (ca, cert, key), None without TLS."""
    files = {word: settings.text(f"tls-{word}") for word in ("ca", "cert", "key")}
    return files if settings.flag("tls") or any(files.values()) else None


def producing(settings: Settings) -> "ProduceLibrary":
    """Return the library of ``msg produce``, without that of consumers and measurements."""
    from mqadmin.traffic.produce import ProduceLibrary

    return ProduceLibrary(cluster_access(settings))


def importing(settings: Settings, admin: "AdminSession") -> "ImportLibrary":
    """Return the library of ``store import``."""
    from mqadmin.traffic.imports.run import ImportLibrary

    return ImportLibrary(cluster_access(settings), admin)


def traffic(settings: Settings) -> "TrafficLibrary":
    """Return the library of consuming and measuring, which uses the client."""
    from mqadmin.traffic.library import TrafficLibrary

    return TrafficLibrary(cluster_access(settings))


def check_namesrv(settings: Settings, addresses: list[str]) -> None:
    """UsageFault, with the origin of the setting, for an invalid address, before connecting."""
    origin = settings.effective["namesrv"].origin
    if not addresses:
        raise UsageFault(f"namesrv ({origin}): no address", "write host:port, several with ;")
    for address in addresses:
        if not address.startswith(("http://", "https://")):
            try:
                parse_address(address)
            except LocalProtocolError as error:
                raise UsageFault(f"namesrv ({origin}): {error.message}", error.hint) from error


def topics(admin: "AdminSession") -> "TopicAdmin":
    """Return the library of the noun ``topic``."""
    from mqadmin.admin.topic import TopicAdmin

    return TopicAdmin(admin)


def bulk_topics(admin: "AdminSession") -> "BulkTopics":
    """Return the library that plans many topics at once."""
    from mqadmin.admin.plans.topics import BulkTopics

    return BulkTopics(admin)


def static_topics(admin: "AdminSession") -> "StaticTopicAdmin":
    """Return the library of static topics."""
    from mqadmin.admin.topics.static_plans import StaticTopicAdmin

    return StaticTopicAdmin(admin)


def topic_list(text: str, source: str) -> "list[TopicEntry]":
    """Return the topics of a list (names, CSV or JSON) read from ``source``."""
    from mqadmin.admin.plans.topics import parse_topic_list

    return parse_topic_list(text, source)


def topic_entry() -> "type[TopicEntry]":
    """Return the type of an entry of a list of topics."""
    from mqadmin.admin.plans.topics import TopicEntry

    return TopicEntry


def allocation_records(
    admin: "AdminSession", topic: str, clients: list[str]
) -> "list[AllocationRecord]":
    """Return which queues each client would get; the library of consumers computes it."""
    from mqadmin.admin.topics.queries import allocation_records

    return allocation_records(admin, topic, clients)


def groups(admin: "AdminSession") -> "GroupAdmin":
    """Return the library of the noun ``group``."""
    from mqadmin.admin.group import GroupAdmin

    return GroupAdmin(admin)


def message_queries(admin: "AdminSession") -> "MessageQueries":
    """Return the queries of the noun ``msg``, without sending and following."""
    from mqadmin.admin.message.query import MessageQueries

    return MessageQueries(admin)


def messages(admin: "AdminSession") -> "MessageAdmin":
    """Return the library of the noun ``msg``."""
    from mqadmin.admin.message.library import MessageAdmin

    return MessageAdmin(admin)


def consumers(admin: "AdminSession") -> "ConsumerAdmin":
    """Return the library of the noun ``consumer``."""
    from mqadmin.admin.consumer import ConsumerAdmin

    return ConsumerAdmin(admin)


def all_lags(admin: "AdminSession") -> "Listing[GroupLag]":
    """Return the lag of every group; one group needs less."""
    from mqadmin.admin.lags.all_groups import all_lags

    return all_lags(admin)


def offsets(admin: "AdminSession") -> "OffsetAdmin":
    """Return the library of the noun ``offset``."""
    from mqadmin.admin.offset.library import OffsetAdmin

    return OffsetAdmin(admin)


def dead_letters(admin: "AdminSession") -> "DlqAdmin":
    """Return the library of the noun ``dlq``."""
    from mqadmin.admin.dlq.library import DlqAdmin

    return DlqAdmin(admin)


def dlq_purger(admin: "AdminSession") -> "DlqPurger":
    """Return the library that skips the dead letters of a group."""
    from mqadmin.admin.dlq.purge import DlqPurger

    return DlqPurger(admin)


def metadata(admin: "AdminSession") -> "MetadataAdmin":
    """Return the library of the noun ``metadata``."""
    from mqadmin.admin.metadata.library import MetadataAdmin

    return MetadataAdmin(admin)


def metadata_scope(
    only: "Sequence[str] | None",
    ignored: "Sequence[str] | None",
    *,
    cluster: str | None,
    namespaces: "Sequence[str] | None" = None,
    settings: bool = True,
) -> "Scope":
    """Return the selected objects: ``only`` these kinds, by default all, or without settings."""
    from mqadmin.admin.metadata.library import scope_of

    return scope_of(only, ignored, cluster=cluster, namespaces=namespaces, settings=settings)


def metadata_file(path: str) -> "MetadataFile":
    """Read a metadata file."""
    from mqadmin.admin.metadata.metadata_file import load_metadata

    return load_metadata(path)


def save_metadata(path: str, content: "MetadataFile") -> None:
    """Write a metadata file."""
    from mqadmin.admin.metadata import metadata_file as library

    library.save_metadata(path, content)


def clusters(admin: "AdminSession") -> "ClusterAdmin":
    """Return the library of the noun ``cluster``."""
    from mqadmin.admin.cluster import ClusterAdmin

    return ClusterAdmin(admin)


def brokers(admin: "AdminSession") -> "BrokerAdmin":
    """Return the library of the noun ``broker``."""
    from mqadmin.admin.broker import BrokerAdmin

    return BrokerAdmin(admin)


def body_form(encoding: str, *, raw: bool = False) -> "BodyView":
    """Return the form in which bodies are shown."""
    from mqadmin.admin.message.record import BodyView

    return BodyView(encoding=encoding, raw=raw)


def decoded_id(text: str) -> "DecodedId":
    """Decode a message id."""
    from mqadmin.admin.message.decoded_id import decode_id

    return decode_id(text)


def read_dead_letters(
    content: "bytes | Iterable[MessageRow]", source: str = ""
) -> "list[DeadLetter]":
    """Read dead letters from the content of the file ``source``, or from messages of a DLQ."""
    from mqadmin.admin.dlq import dead_letters as library

    if isinstance(content, bytes):
        return library.read_dead_letters(content, source)
    return [library.dead_letter_of(row) for row in content]


def write_plan(
    admin: "AdminSession", plan: "Plan | ResetPlan", path: str, *, verb: str, context: str
) -> str:
    """Write the plan of a change to a new file; return the path as a word of a shell."""
    from mqadmin.admin.plans.plan_file import write_plan_file

    return write_plan_file(admin, plan, path, verb=verb, context=context)
