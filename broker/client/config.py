"""Settings of the client: shared by all roles, of producers, of consumers.

One frozen record per role. Each field names Java's setter (``ClientConfig``, ``DefaultMQProducer``,
``DefaultMQPushConsumer``); defaults are Java's 5.3.3 unless noted at the field.
"""

import os
import ssl
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from broker.client.offset.start_offset import ConsumeFromWhere
from broker.errors import ClientError
from broker.remoting.limits import CONNECT_TIMEOUT_MS
from broker.remoting.rpc.caller import parse_namesrv
from broker.remoting.rpc.message_encoder import SendRules
from broker.remoting.security.signing import Credentials

NAMESRV_VARIABLE = "NAMESRV_ADDR"
"""Environment variable with the name servers, used if the configuration names none."""

DEFAULT_INSTANCE = "DEFAULT"


class FaultRule(StrEnum):
    """Which release's rules decide about brokers to avoid.

    **Source:** RocketMQ ``MQFaultStrategy``.
    """

    V4 = "4.9"
    V5 = "5.3"


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that every role shares; all times in ms.

    ``namesrv`` addresses, or one text with ``;`` between them; without them ``NAMESRV_ADDR``, then
    ``namesrv_url`` (HTTP GET, the body is such a text, asked again every 120 s). ``instance_name``:
    clients of the same name share connections; ``DEFAULT`` gives each client its own.
    ``client_ip`` part of the client id, by default the address of the default route.
    ``address_map`` advertised address to reachable address. ``vip_channel`` sends to the broker's
    port - 2. ``namespace`` prefix of topics and groups, invisible to the application.
    ``unit_name`` and ``unit_mode`` mark a unit of a multi-site deployment. ``tls`` the context of
    every connection, ``credentials`` sign each request.

    Routes are refreshed every ``poll_name_server_interval_ms``, heartbeats sent every
    ``heartbeat_broker_interval_ms``, consumer offsets committed every
    ``persist_consumer_offset_interval_ms``, the list of ``namesrv_url`` is read every
    ``namesrv_url_interval_ms``. ``mq_client_api_timeout_ms`` bounds a request that has no timeout
    in its role's settings, ``connect_timeout_ms`` connecting.

    **Source:** RocketMQ ``ClientConfig``.
    """

    namesrv: str | Sequence[str] = ()
    namesrv_url: str = ""
    instance_name: str = DEFAULT_INSTANCE
    client_ip: str = ""
    unit_name: str = ""
    unit_mode: bool = False
    namespace: str = ""
    vip_channel: bool = False
    address_map: Mapping[str, str] = {}
    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None
    poll_name_server_interval_ms: int = 30_000
    heartbeat_broker_interval_ms: int = 30_000
    persist_consumer_offset_interval_ms: int = 5_000
    namesrv_url_interval_ms: int = 120_000
    mq_client_api_timeout_ms: int = 3_000
    connect_timeout_ms: int = CONNECT_TIMEOUT_MS

    def namesrv_addresses(self) -> tuple[str, ...]:
        """Return the configured name servers; empty if they are discovered over HTTP.

        Raises ClientError for an invalid address, or if neither addresses nor a URL are known.
        """
        given = self.namesrv or os.environ.get(NAMESRV_VARIABLE, "")
        addresses = parse_namesrv(given)
        if not addresses and not self.namesrv_url:
            raise ClientError(
                "no name server is configured",
                f"pass ClientConfig(namesrv='host:port') or set {NAMESRV_VARIABLE}",
            )
        return addresses


class ProducerConfig(SendRules, frozen=True, kw_only=True):
    """Settings of a producer; all times in ms, sizes in bytes.

    ``send_msg_timeout_ms`` bounds all attempts of one send. ``max_timeout_per_request_ms`` bounds
    one attempt: None leaves a third of the remaining time for another broker if there is one, 0
    lets one attempt use all of it (Java's default, with which a broker that hangs uses it up).
    ``retry_times`` and ``retry_times_async`` count attempts after the first. ``retry_codes``
    response codes that are retried besides Java's. ``compress_over`` bodies of at least this size
    are compressed with ``compress_type`` (zlib, lz4, zstd) at ``compress_level``; batches never. A
    body above ``max_message_size`` is refused. ``create_topic_key`` template of topics created by a
    first send, with at most ``default_topic_queue_nums`` queues.
    ``retry_another_broker_when_not_store_ok`` also repeats a message that is stored, but not
    flushed or copied in time. ``send_latency_enable`` avoids slow and failed brokers by the rules
    of ``fault_rule``; ``start_detector_enable`` probes failed ones. ``back_pressure_count`` and
    ``back_pressure_bytes`` bound asynchronous sends in flight.

    **Source:** RocketMQ ``DefaultMQProducer``.
    """

    send_msg_timeout_ms: int = 3_000
    max_timeout_per_request_ms: int | None = None
    retry_times: int = 2
    retry_times_async: int = 2
    retry_another_broker_when_not_store_ok: bool = False
    retry_codes: frozenset[int] = frozenset()
    send_latency_enable: bool = False
    start_detector_enable: bool = False
    fault_rule: FaultRule = FaultRule.V5
    back_pressure_count: int = 1_024
    back_pressure_bytes: int = 100 * 1024 * 1024


class MessageModel(StrEnum):
    """Whether a message goes to one member of a group or to all.

    **Source:** RocketMQ ``MessageModel``.
    """

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a push or lite pull consumer; all times in ms, sizes in bytes.

    ``message_model`` CLUSTERING (a message goes to one member) or BROADCASTING (to all).
    ``consume_from_where`` the start of queues without a committed offset; ``consume_timestamp_ms``
    that of CONSUME_FROM_TIMESTAMP, by default half an hour before the start. ``consume_threads``
    listeners that run at once. ``consume_message_batch_max_size`` messages of one listener call.

    Pulling a queue pauses while it has ``pull_threshold_for_queue`` unfinished messages or
    ``pull_threshold_size_for_queue`` bytes of them, or while the offsets of the first and the last
    are more than ``consume_concurrently_max_span`` apart. ``pull_threshold_for_topic`` and
    ``pull_threshold_size_for_topic`` are divided by the owned queues, -1 means none. One pull
    returns up to ``pull_batch_size`` messages or ``pull_batch_size_bytes``; the next one follows
    after ``pull_interval_ms``, after ``pull_delay_when_exception_ms`` if it failed. A broker
    suspends a pull that finds nothing for ``broker_suspend_max_ms``; ``pull_timeout_ms`` bounds it.

    ``max_reconsume_times`` -1: ``retryMaxTimes`` of the group for concurrent listeners (16 when
    popping), unlimited for orderly ones.
    ``suspend_current_queue_ms`` the pause of a queue whose orderly listener asks for one.
    ``consume_timeout_ms`` a listener that runs longer has its message sent back.
    ``await_termination_ms`` how long a stop waits for listeners (Java: 0).
    ``await_suspended_pulls_ms`` how long a stop waits for the answers of suspended pulls (Java: 0):
    one that is left makes a broker with autoCreateSubscriptionGroup create a deleted group again.
    ``client_rebalance`` False lets 5.x brokers assign the queues of concurrent, clustering
    consumers, in PULL or POP mode (``mqadmin consumer mode``). In POP mode a message stays
    invisible for ``pop_invisible_ms``, one pop returns up to ``pop_batch_nums`` messages, and
    popping pauses at ``pop_threshold_for_queue`` messages of a queue that are not acknowledged.
    ``offset_dir`` directory of broadcasting offsets, by default ``~/.rocketmq_offsets``.

    **Source:** RocketMQ ``DefaultMQPushConsumer``.
    """

    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    consume_timestamp_ms: int | None = None
    consume_threads: int = 20
    consume_message_batch_max_size: int = 1
    consume_concurrently_max_span: int = 2_000
    pull_threshold_for_queue: int = 1_000
    pull_threshold_size_for_queue: int = 100 * 1024 * 1024
    pull_threshold_for_topic: int = -1
    pull_threshold_size_for_topic: int = -1
    pull_interval_ms: int = 0
    pull_batch_size: int = 32
    pull_batch_size_bytes: int = 256 * 1024
    pull_delay_when_exception_ms: int = 1_000
    broker_suspend_max_ms: int = 15_000
    pull_timeout_ms: int = 30_000
    max_reconsume_times: int = -1
    suspend_current_queue_ms: int = 1_000
    consume_timeout_ms: int = 15 * 60_000
    await_termination_ms: int = 10_000
    await_suspended_pulls_ms: int = 0
    client_rebalance: bool = True
    pop_invisible_ms: int = 60_000
    pop_batch_nums: int = 32
    pop_threshold_for_queue: int = 96
    offset_dir: str = ""

    @property
    def is_clustering(self) -> bool:
        """Whether a message is delivered to one member of the group, not to all."""
        return self.message_model is MessageModel.CLUSTERING

    def check(self) -> None:
        """Raise ClientError for a value of a wrong type or outside its range.

        **Source:** RocketMQ ``DefaultMQPushConsumerImpl#checkConfig``.
        """
        for name, kind in _ENUMS:
            if not isinstance(getattr(self, name), kind):
                raise ClientError(
                    f"{name} is {getattr(self, name)!r}, not a {kind.__name__}",
                    f"available: {', '.join(kind)}",
                )
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not isinstance(value, int):
                raise ClientError(f"{name} is {value!r:.80}: it must be an integer")
            if not low <= value <= high:
                raise ClientError(f"{name} is {value}: it must be between {low} and {high}")


_ENUMS: tuple[tuple[str, type[StrEnum]], ...] = (
    ("message_model", MessageModel),
    ("consume_from_where", ConsumeFromWhere),
)
_RANGES = (
    ("consume_threads", 1, 1_000),
    ("consume_message_batch_max_size", 1, 1_024),
    ("consume_concurrently_max_span", 1, 65_535),
    ("pull_threshold_for_queue", 1, 65_535),
    ("pull_threshold_size_for_queue", 1, 1 << 30),
    ("pull_interval_ms", 0, 65_535),
    ("pull_batch_size", 1, 1_024),
    ("pop_invisible_ms", 5_000, 300_000),
    ("pop_batch_nums", 1, 32),
)
