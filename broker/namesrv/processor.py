"""The request handlers of a name server.

A handler decodes header and body, calls the tables and encodes the response. A refusal is raised
as BrokerError with code and remark, from which the endpoint builds the response.

**Source:** RocketMQ DefaultRequestProcessor, ClientRequestProcessor.
"""

import asyncio
import logging
import zlib
from collections.abc import Awaitable
from functools import partial

from broker.common.clock import Clock
from broker.common.config.properties import parse_properties
from broker.errors import BrokerError, ClientError, ConfigError, RemoteProtocolError
from broker.namesrv.brokers import Registration
from broker.namesrv.kv import ORDER_TOPIC_CONFIG, KVConfig
from broker.namesrv.route import RouteInfoManager
from broker.namesrv.settings import LiveSettings
from broker.remoting.protocol.body.namesrv.cluster import (
    BrokerMemberGroup,
    GetBrokerMemberGroupResponseBody,
)
from broker.remoting.protocol.body.namesrv.kv import KVTable
from broker.remoting.protocol.body.namesrv.register import RegisterBrokerBody
from broker.remoting.protocol.body.namesrv.route import TopicList, TopicRouteData
from broker.remoting.protocol.body.version import DataVersion
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.fields import decode_header_fields, encode_header_fields
from broker.remoting.protocol.header.namesrv.kv import (
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    KVConfigRequestHeader,
    PutKVConfigRequestHeader,
)
from broker.remoting.protocol.header.namesrv.route import (
    AddWritePermResponseHeader,
    BrokerHeartbeatRequestHeader,
    BrokerNameRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnregisterBrokerRequestHeader,
    WipeWritePermResponseHeader,
)
from broker.remoting.protocol.header.topic import TopicNameRequestHeader
from broker.remoting.protocol.rpc import Access
from broker.remoting.server import Connection, Handler

STANDARD_JSON_VERSION = 401
"""From this header version (4.9.4) on clients support quoted broker ids in routes."""

CRC_MASK = 0x7FFFFFFF

DECODED_AT_ONCE_BYTES = 64 * 1024
"""Larger registrations (some hundred topics) are decoded in a thread: 10,000 topics take 80 ms."""

log = logging.getLogger("broker.namesrv")


class NamesrvProcessor:
    """The handlers of one name server."""

    def __init__(
        self, routes: RouteInfoManager, kv: KVConfig, settings: LiveSettings, clock: Clock
    ) -> None:
        self.routes = routes
        self.kv = kv
        self.settings = settings
        self.clock = clock
        self.started_ms = clock.monotonic_ms()

    def started(self) -> None:
        """Record the start time, from which ``waitSecondsForService`` is counted."""
        self.started_ms = self.clock.monotonic_ms()

    def handlers(self) -> dict[int, Handler]:
        """Return the handlers of all supported codes: request code → handler."""
        return {
            RequestCode.PUT_KV_CONFIG: self.put_kv,
            RequestCode.GET_KV_CONFIG: self.get_kv,
            RequestCode.DELETE_KV_CONFIG: self.delete_kv,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.list_kv,
            RequestCode.QUERY_DATA_VERSION: self.query_data_version,
            RequestCode.REGISTER_BROKER: self.register_broker,
            RequestCode.UNREGISTER_BROKER: self.unregister_broker,
            RequestCode.BROKER_HEARTBEAT: self.broker_heartbeat,
            RequestCode.GET_BROKER_MEMBER_GROUP: self.broker_member_group,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster_info,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.wipe_write_perm,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.add_write_perm,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.all_topics,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.delete_topic,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self.register_topic,
            RequestCode.GET_TOPICS_BY_CLUSTER: self.topics_by_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self.unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self.unit_sub_topics,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self.unit_sub_ununit_topics,
            RequestCode.UPDATE_NAMESRV_CONFIG: self.update_config,
            RequestCode.GET_NAMESRV_CONFIG: self.get_config,
        }

    # ---- brokers

    def register_broker(
        self, connection: Connection, command: RemotingCommand
    ) -> RemotingCommand | Awaitable[RemotingCommand]:
        """REGISTER_BROKER: register address and topics; a slave receives its master address.

        **Source:** RocketMQ DefaultRequestProcessor#registerBroker
        """
        if connection.closed:  # one-way, served after the close: nothing would remove the broker
            return response(command)
        header = decode_header_fields(RegisterBrokerRequestHeader, command.ext_fields)
        data = command.body_bytes()
        if header.body_crc32 and zlib.crc32(data) & CRC_MASK != header.body_crc32:
            raise BrokerError(
                ResponseCode.SYSTEM_ERROR,
                f"the body of {len(data)} bytes does not match bodyCrc32={header.body_crc32}",
            )
        decode = partial(
            RegisterBrokerBody.decode, data, version=command.version, compressed=header.compressed
        )
        if len(data) > DECODED_AT_ONCE_BYTES:
            return self._register_large(connection, command, header, decode)
        return self._register(connection, command, header, decode())

    async def _register_large(
        self,
        connection: Connection,
        command: RemotingCommand,
        header: RegisterBrokerRequestHeader,
        decode: "partial[RegisterBrokerBody]",
    ) -> RemotingCommand:
        body = await asyncio.get_running_loop().run_in_executor(None, decode)
        if connection.closed:
            # The end of a connection unregisters its broker; that has happened already.
            raise BrokerError(
                ResponseCode.SYSTEM_ERROR, f"{header.broker_name} has closed its connection"
            )
        return self._register(connection, command, header, body)

    def _register(
        self,
        connection: Connection,
        command: RemotingCommand,
        header: RegisterBrokerRequestHeader,
        body: RegisterBrokerBody,
    ) -> RemotingCommand:
        wrapper = body.topic_config_serialize_wrapper
        result = self.routes.register(
            Registration(
                cluster=header.cluster_name,
                broker_name=header.broker_name,
                broker_id=header.broker_id,
                address=header.broker_addr,
                ha_address=header.ha_server_addr,
                timeout_ms=header.heartbeat_timeout_millis,
                enable_acting_master=header.enable_acting_master,
                zone=header.zone_name,
                topics=wrapper.topic_config_table,
                data_version=wrapper.data_version,
                mappings=wrapper.topic_queue_mapping_info_map,
                filter_servers=body.filter_server_list,
            ),
            connection,
        )
        if result is None:
            raise BrokerError(
                ResponseCode.SYSTEM_ERROR,
                f"{header.broker_name} ({header.broker_addr}) is not registered: "
                "a single topic is an addition to a registration",
            )
        answer = RegisterBrokerResponseHeader(
            ha_server_addr=result.ha_address or None, master_addr=result.master_address or None
        )
        order = None
        if self.settings.config.return_order_topic_config_to_broker:
            order = self.kv.namespace(ORDER_TOPIC_CONFIG)
        return response(
            command,
            ext=encode_header_fields(answer),
            body=b"" if order is None else KVTable(table=order).to_bytes(),
        )

    def unregister_broker(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """UNREGISTER_BROKER: remove a broker that shuts down."""
        header = decode_header_fields(UnregisterBrokerRequestHeader, command.ext_fields)
        self.routes.unregister(header.cluster_name, header.broker_name, header.broker_addr)
        return response(command)

    def query_data_version(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """QUERY_DATA_VERSION: whether the broker must register again; counts as a heartbeat.

        **Source:** RocketMQ DefaultRequestProcessor#queryBrokerTopicConfig
        """
        header = decode_header_fields(QueryDataVersionRequestHeader, command.ext_fields)
        asked = DataVersion.from_bytes(command.body_bytes())
        cluster, address = header.cluster_name, header.broker_addr
        changed = self.routes.is_changed(cluster, address, asked)
        self.routes.heard_from(cluster, address)
        known = self.routes.data_version_of(cluster, address)
        return response(
            command,
            ext=encode_header_fields(QueryDataVersionResponseHeader(changed=changed)),
            body=b"" if known is None else known.to_bytes(),
        )

    def broker_heartbeat(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """BROKER_HEARTBEAT: refresh the broker's liveness."""
        header = decode_header_fields(BrokerHeartbeatRequestHeader, command.ext_fields)
        self.routes.heard_from(header.cluster_name, header.broker_addr)
        return response(command)

    def broker_member_group(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_BROKER_MEMBER_GROUP: the addresses of one broker name."""
        header = decode_header_fields(GetBrokerMemberGroupRequestHeader, command.ext_fields)
        group = BrokerMemberGroup(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_addrs=self.routes.members(header.broker_name),
        )
        return response(
            command, body=GetBrokerMemberGroupResponseBody(broker_member_group=group).to_bytes()
        )

    def cluster_info(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_BROKER_CLUSTER_INFO: every cluster and broker."""
        return response(command, body=self.routes.cluster_info().to_bytes())

    def wipe_write_perm(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """WIPE_WRITE_PERM_OF_BROKER: clients stop sending to this broker."""
        header = decode_header_fields(BrokerNameRequestHeader, command.ext_fields)
        count = self.routes.wipe_write_perm(header.broker_name)
        log.info("write permission of %s wiped from %d topics", header.broker_name, count)
        answer = WipeWritePermResponseHeader(wipe_topic_count=count)
        return response(command, ext=encode_header_fields(answer))

    def add_write_perm(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """ADD_WRITE_PERM_OF_BROKER: clients may send to this broker again."""
        header = decode_header_fields(BrokerNameRequestHeader, command.ext_fields)
        count = self.routes.add_write_perm(header.broker_name)
        log.info("write permission of %s added to %d topics", header.broker_name, count)
        answer = AddWritePermResponseHeader(add_topic_count=count)
        return response(command, ext=encode_header_fields(answer))

    # ---- routes and topics

    def route(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_ROUTEINFO_BY_TOPIC: the route of a topic, in zone mode that of one zone.

        **Source:** RocketMQ ClientRequestProcessor#getRouteInfoByTopic
        """
        header = decode_header_fields(GetRouteInfoRequestHeader, command.ext_fields)
        config = self.settings.config
        if config.need_wait_for_service:
            age_ms = self.clock.monotonic_ms() - self.started_ms
            if age_ms < config.wait_seconds_for_service * 1000:
                raise BrokerError(ResponseCode.SYSTEM_ERROR, "the name server is not ready yet")
        zone = (header.zone_name or "").strip() if header.zone_mode else ""
        route = self.routes.route(header.topic, zone)
        if route is None:
            raise BrokerError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"no route for topic {header.topic}: no registered broker has it",
            )
        if config.order_message_enable:
            order = self.kv.get(ORDER_TOPIC_CONFIG, header.topic)
            if order is not None:
                route = TopicRouteData(
                    order_topic_conf=order,
                    queue_datas=route.queue_datas,
                    broker_datas=route.broker_datas,
                    filter_server_table=route.filter_server_table,
                    topic_queue_mapping_by_broker=route.topic_queue_mapping_by_broker,
                )
        standard = command.version >= STANDARD_JSON_VERSION or bool(
            header.accept_standard_json_only
        )
        return response(command, body=route.to_bytes(standard))

    def all_topics(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_ALL_TOPIC_LIST_FROM_NAMESERVER."""
        self._require(self.settings.config.enable_all_topic_list, "enableAllTopicList")
        return _topics(command, self.routes.all_topics())

    def topics_by_cluster(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_TOPICS_BY_CLUSTER."""
        self._require(self.settings.config.enable_topic_list, "enableTopicList")
        header = decode_header_fields(GetTopicsByClusterRequestHeader, command.ext_fields)
        return _topics(command, self.routes.topics_of_cluster(header.cluster))

    def system_topics(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_SYSTEM_TOPIC_LIST_FROM_NS: cluster and broker names, and the address of a broker."""
        names, address = self.routes.system_topics()
        return _topics(command, names, address)

    def unit_topics(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_UNIT_TOPIC_LIST."""
        self._require(self.settings.config.enable_topic_list, "enableTopicList")
        return _topics(command, self.routes.unit_topics(unit=True, unit_sub=None))

    def unit_sub_topics(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_HAS_UNIT_SUB_TOPIC_LIST."""
        self._require(self.settings.config.enable_topic_list, "enableTopicList")
        return _topics(command, self.routes.unit_topics(unit=None, unit_sub=True))

    def unit_sub_ununit_topics(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST."""
        self._require(self.settings.config.enable_topic_list, "enableTopicList")
        return _topics(command, self.routes.unit_topics(unit=False, unit_sub=True))

    def delete_topic(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """DELETE_TOPIC_IN_NAMESRV: remove a topic until a broker registers it again."""
        header = decode_header_fields(DeleteTopicFromNamesrvRequestHeader, command.ext_fields)
        self.routes.delete_topic(header.topic, header.cluster_name or "")
        return response(command)

    def register_topic(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """REGISTER_TOPIC_IN_NAMESRV: add a topic if all its brokers are registered.

        **Source:** RocketMQ DefaultRequestProcessor#registerTopicToNamesrv (5.x)
        """
        header = decode_header_fields(TopicNameRequestHeader, command.ext_fields)
        queues = TopicRouteData.from_bytes(command.body_bytes()).queue_datas
        if queues and not self.routes.register_topic(header.topic, queues):
            log.warning("topic %s not registered: a broker it names is unknown", header.topic)
        return response(command)

    @staticmethod
    def _require(enabled: bool, key: str) -> None:
        if not enabled:
            raise BrokerError(ResponseCode.SYSTEM_ERROR, f"topic lists are off: {key}=false")

    # ---- KV and settings

    def put_kv(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """PUT_KV_CONFIG."""
        header = decode_header_fields(PutKVConfigRequestHeader, command.ext_fields)
        try:
            self.kv.put(header.namespace, header.key, header.value)
        except ClientError as error:
            raise BrokerError(ResponseCode.SYSTEM_ERROR, error.message) from error
        return response(command)

    def get_kv(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_KV_CONFIG."""
        header = decode_header_fields(KVConfigRequestHeader, command.ext_fields)
        value = self.kv.get(header.namespace, header.key)
        if value is None:
            raise BrokerError(
                ResponseCode.QUERY_NOT_FOUND,
                f"no key {header.key} in namespace {header.namespace}",
            )
        return response(command, ext=encode_header_fields(GetKVConfigResponseHeader(value=value)))

    def delete_kv(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """DELETE_KV_CONFIG."""
        header = decode_header_fields(KVConfigRequestHeader, command.ext_fields)
        if not header.namespace.strip() or not header.key.strip():
            raise BrokerError(ResponseCode.SYSTEM_ERROR, "namespace and key must not be blank")
        self.kv.delete(header.namespace, header.key)
        return response(command)

    def list_kv(self, _: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_KVLIST_BY_NAMESPACE."""
        header = decode_header_fields(GetKVListByNamespaceRequestHeader, command.ext_fields)
        table = self.kv.namespace(header.namespace)
        if table is None:
            raise BrokerError(ResponseCode.QUERY_NOT_FOUND, f"no namespace {header.namespace}")
        return response(command, body=KVTable(table=table).to_bytes())

    def update_config(self, connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """UPDATE_NAMESRV_CONFIG: properties text; either all changes are applied or none."""
        try:
            changes = parse_properties(command.body_bytes().decode("utf-8"))
        except (UnicodeDecodeError, ConfigError) as error:
            raise RemoteProtocolError(f"the body is not a properties text: {error}") from error
        log.info("settings changed by %s: %s", connection.remote_address, ", ".join(changes))
        self.settings.update(changes)
        return response(command)

    def get_config(self, connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_NAMESRV_CONFIG: all effective settings as properties text, secrets masked."""
        administrator = connection.access >= Access.ADMINISTRATOR
        return response(command, body=self.settings.as_text(administrator=administrator).encode())


def _topics(
    command: RemotingCommand, topics: list[str], address: str | None = None
) -> RemotingCommand:
    return response(command, body=TopicList(topic_list=topics, broker_addr=address).to_bytes())
