"""The library of messages in bulk: a cluster, its credentials, and the operations."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from broker.client import ClientConfig, Credentials, MessageExt
from broker.common.topic import retry_topic
from broker.errors import ClientError
from mqadmin.admin.connect.access import tls_context
from mqadmin.admin.group import GroupAdmin
from mqadmin.admin.message.read_from import ReadFrom
from mqadmin.admin.message.record import BodyView, record_of
from mqadmin.admin.message.tail import ROUND_MS, Report
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import TopicAdmin
from mqadmin.message_row import MessageRow
from mqadmin.traffic.bench.result import Meter
from mqadmin.traffic.bench.runs import Bench
from mqadmin.traffic.consume import CommitRule, GroupConsumer, TopicConsumer
from mqadmin.traffic.input import Stream
from mqadmin.traffic.membership import filter_to_join
from mqadmin.traffic.options import BenchOptions, ProduceOptions, Start
from mqadmin.traffic.produce import LineFailure, ProduceRun, Source
from mqadmin.traffic.stop import StopSignal


def client_config(
    namesrv: Sequence[str],
    *,
    timeout_ms: int,
    address_map: Mapping[str, str] | None = None,
    access_key: str | None = None,
    secret_key: str | None = None,
    tls_files: Mapping[str, str | None] | None = None,
) -> ClientConfig:
    """Return the client's settings; ``namesrv`` addresses, or one URL to discover them.

    ``tls_files`` (ca, cert, key) enables TLS; ConfigError for a file that cannot be used.
    """
    url = namesrv[0] if namesrv[0].startswith(("http://", "https://")) else ""
    credentials = None
    if access_key and secret_key:
        credentials = Credentials(access_key=access_key, secret_key=secret_key)
    return ClientConfig(
        namesrv=() if url else tuple(namesrv),
        namesrv_url=url,
        address_map=dict(address_map or {}),
        credentials=credentials,
        tls=None if tls_files is None else tls_context(**tls_files),
        mq_client_api_timeout_ms=timeout_ms,
        connect_timeout_ms=min(timeout_ms, 3_000),
    )


class TrafficLibrary:
    """Produce and consume with one cluster."""

    def __init__(self, client: ClientConfig, *, timeout_ms: int) -> None:
        self.client = client
        self.timeout_ms = timeout_ms

    def stop_signal(self) -> StopSignal:
        """Return a context in which signals end a run in order."""
        return StopSignal()

    def produce(
        self,
        stop: StopSignal,
        options: ProduceOptions,
        *,
        on_failure: Callable[[LineFailure], None],
        on_progress: Callable[[int], None],
    ) -> ProduceRun:
        """Return a run that sends the messages of its sources."""
        return ProduceRun(
            self.client, options, stop, on_failure=on_failure, on_progress=on_progress
        )

    def sources(self, paths: Sequence[str], stdin: Stream) -> Iterator[Source]:
        """Open the inputs one after the other; ``-`` is stdin."""
        for path in paths:
            if path == "-":
                yield Source("stdin", stdin)
            else:
                with open(path, "rb") as file:
                    yield Source(path, file)

    def group_consumer(
        self,
        admin: AdminSession,
        group: str,
        topic: str,
        *,
        start: Start,
        tags: str | None,
        sql: str | None,
        commit: CommitRule,
    ) -> GroupConsumer:
        """Return a member of a group; ClientError for an unknown topic.

        Without ``tags`` and ``sql`` it has the filter of the connected members; ClientError if it
        cannot have the same subscription as they have.
        """
        admin.routes.get(topic)
        wanted = filter_to_join(admin, group, topic, tags=tags, sql=sql)
        names = {target.address: target.label for target in admin.topology.targets}
        return GroupConsumer(
            self.client,
            group,
            topic,
            start=start,
            tags=wanted.tags,
            sql=wanted.sql,
            broker_of=names,
            commit=commit,
        )

    def topic_consumer(
        self,
        admin: AdminSession,
        topic: str,
        report: Report,
        *,
        start: Start,
        tags: str,
        sql: str | None,
    ) -> TopicConsumer:
        """Return a reader without a group."""
        question = ReadFrom(topic=topic, start=start, tags=tags, sql=sql)
        return TopicConsumer(admin.without_deadline(ROUND_MS), question, report)

    def bench(
        self, options: BenchOptions, stop: StopSignal, progress: Callable[[Meter], None]
    ) -> Bench:
        """Return a measurement."""
        return Bench(self.client, options, stop, progress)

    def create_topic(self, admin: AdminSession, topic: str, queues: int) -> None:
        """Create a topic on the masters of the only cluster; an existing one is left unchanged."""
        topics = TopicAdmin(admin)
        applied = topics.apply(topics.plan_create(topic, queues=queues, if_not_exists=True))
        for error in applied.errors:
            raise ClientError(error.message, error.hint)

    def temporary_group(self) -> str:
        """Return the name of a group for one run."""
        return f"mqadmin_bench_{os.urandom(6).hex()}"

    def delete_group(self, admin: AdminSession, group: str) -> None:
        """Delete a group of one run, with its offsets and its retry topic."""
        groups, topics = GroupAdmin(admin), TopicAdmin(admin)
        if admin.routes.find(retry_topic(group)) is not None:
            topics.apply(topics.plan_delete(retry_topic(group)))
        # last: a Java broker creates a group again when a request names it
        groups.apply(groups.plan_delete(group, remove_offset=True))

    def row(self, name: str | None, message: MessageExt, body: BodyView) -> MessageRow:
        """Build the row of a message."""
        return record_of(message, name, body)
