"""The RPC table: one row per request code.

How to read it. A row contains the roles that serve the code (abbreviations below), the lane of its
requests, the access level required (``Access``), the typed header and body of request (``ext``,
``body``) and response (``reply_ext``, ``reply_body``), and the first and last release that supports
it. Servers use the table for dispatch and access checks, clients for building calls; the reference
page is generated from it.

Letters: B broker, N name server, C client (called by a broker), K controller, X broker container,
P the 5.x proxy. No letter: defined but not served by any role; a broker responds
REQUEST_CODE_NOT_SUPPORTED.

Types are named ``family:Class`` and looked up in ``header/<family>.py`` or ``body/<family>.py``
at first use, so that a command imports only the modules it uses. Bodies without a class:

``message``  one message's payload     ``batch``  several (``broker.message.batch``)
``records``  stored records, concatenated (``broker.message.record``)
``text``     properties lines or a bare name, UTF-8

Lanes correspond to Java's thread pools; the backlog of one lane does not delay another.

**Source:** RocketMQ ``BrokerController#registerProcessor``, ``NamesrvController``,
``AdminBrokerProcessor``, ``DefaultRequestProcessor``, ``ClientRemotingProcessor``.
"""

# ruff: noqa: E501

from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Any, Final

import msgspec

from broker.remoting.protocol.codes import RequestCode, request_name
from broker.remoting.protocol.header.fields import decode_header_fields, encode_header_fields

__all__ = [
    "BODY_KINDS",
    "RPC",
    "Access",
    "Rpc",
    "decode_header_fields",
    "encode_header_fields",
    "resolve",
]

ROLES: Final = {
    "B": "broker",
    "N": "namesrv",
    "C": "client",
    "K": "controller",
    "X": "container",
    "P": "proxy",
}

BODY_KINDS: Final = ("message", "batch", "records", "text")
"""Bodies without a typed class."""


class Access(IntEnum):
    """The access level that a request requires; each level includes the lower ones.

    ``PUBLIC``: reads allowed for every peer. ``CLIENT``: requests of producers and consumers;
    without authentication every peer is a client. ``MEMBER``: requests between brokers,
    controllers and name servers of the cluster. ``ADMINISTRATOR``: requests that remove data,
    change settings, act on other clients or return details about them. The module
    ``broker.remoting.security.access`` assigns levels to peers.
    """

    PUBLIC = 0
    CLIENT = 1
    MEMBER = 2
    ADMINISTRATOR = 3


class Rpc(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request code.

    ``request_header``, ``request_body``, ``response_header``, ``response_body`` are references for
    ``resolve``, "" for none; ``served_by`` roles; ``since`` first release, "" for all of 4.9;
    ``until`` last release, "" if still supported; ``access`` the required level; ``fast_port``
    whether a broker also serves the code on listenPort - 2.
    """

    code: int
    name: str
    request_header: str
    request_body: str
    response_header: str
    response_body: str
    served_by: tuple[str, ...]
    lane: str
    since: str
    until: str
    access: Access
    fast_port: bool

    @property
    def request_header_type(self) -> Any:
        """The header class of requests, None without ext fields."""
        return resolve(self.request_header)

    @property
    def response_header_type(self) -> Any:
        """The header class of responses, None without ext fields."""
        return resolve(self.response_header)

    @property
    def request_body_type(self) -> Any:
        """The body class of requests, None without body or with one of BODY_KINDS."""
        return resolve(self.request_body)

    @property
    def response_body_type(self) -> Any:
        """The body class of responses, None without body or with one of BODY_KINDS."""
        return resolve(self.response_body)


@cache
def resolve(reference: str) -> Any:
    """Return the class for ``family:Class``; None for "" and for BODY_KINDS.

    A name that contains "Header" is looked up in the header family, any other in the body family.
    """
    family, _, name = reference.partition(":")
    if not name:
        return None
    room = "header" if "Header" in name else "body"
    return getattr(import_module(f"broker.remoting.protocol.{room}.{family}"), name)


_NOT_ON_FAST_PORT: Final = frozenset(
    (
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.POP_MESSAGE,
        RequestCode.PEEK_MESSAGE,
        RequestCode.NOTIFICATION,
        RequestCode.POLLING_INFO,
    )
)


def _rpc(
    code: int,
    by: str,
    lane: str,
    access: str,
    *,
    ext: str = "",
    body: str = "",
    reply_ext: str = "",
    reply_body: str = "",
    since: str = "",
    until: str = "",
) -> Rpc:
    return Rpc(
        code=code,
        name=request_name(code),
        request_header=ext,
        request_body=body,
        response_header=reply_ext,
        response_body=reply_body,
        served_by=tuple(ROLES[letter] for letter in by),
        lane=lane,
        since=since,
        until=until,
        access=Access[access.upper()],
        fast_port="B" in by and code not in _NOT_ON_FAST_PORT,
    )


# Long lines, so that each code has one row
# fmt: off
_ROWS: Final = (
    # --- producing
    _rpc(RequestCode.SEND_MESSAGE, "BP", "send", "client", ext="send:SendMessageRequestHeader", body="message", reply_ext="send:SendMessageResponseHeader"),
    _rpc(RequestCode.SEND_MESSAGE_V2, "BP", "send", "client", ext="send:SendMessageRequestHeaderV2", body="message", reply_ext="send:SendMessageResponseHeader"),
    _rpc(RequestCode.SEND_BATCH_MESSAGE, "BP", "send", "client", ext="send:SendMessageRequestHeaderV2", body="batch", reply_ext="send:SendMessageResponseHeader"),
    _rpc(RequestCode.CONSUMER_SEND_MSG_BACK, "BP", "send", "client", ext="send:ConsumerSendMsgBackRequestHeader"),
    _rpc(RequestCode.RECALL_MESSAGE, "BP", "send", "client", ext="send:RecallMessageRequestHeader", reply_ext="send:RecallMessageResponseHeader", since="5.3.2"),
    _rpc(RequestCode.SEND_REPLY_MESSAGE, "B", "reply", "client", ext="send:SendMessageRequestHeader", body="message", reply_ext="send:SendMessageResponseHeader"),
    _rpc(RequestCode.SEND_REPLY_MESSAGE_V2, "B", "reply", "client", ext="send:SendMessageRequestHeaderV2", body="message", reply_ext="send:SendMessageResponseHeader"),
    _rpc(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, "C", "client", "member", ext="send:ReplyMessageRequestHeader", body="message"),
    # --- transactions
    _rpc(RequestCode.END_TRANSACTION, "BP", "transaction", "client", ext="transaction:EndTransactionRequestHeader"),
    _rpc(RequestCode.CHECK_TRANSACTION_STATE, "C", "client", "member", ext="transaction:CheckTransactionStateRequestHeader", body="records"),
    _rpc(RequestCode.RESUME_CHECK_HALF_MESSAGE, "B", "admin", "administrator", ext="transaction:ResumeCheckHalfMessageRequestHeader"),
    # --- pulling and looking up
    _rpc(RequestCode.PULL_MESSAGE, "BP", "pull", "client", ext="consumer.pull:PullMessageRequestHeader", reply_ext="consumer.pull:PullMessageResponseHeader", reply_body="records"),
    _rpc(RequestCode.LITE_PULL_MESSAGE, "BP", "litePull", "client", ext="consumer.pull:PullMessageRequestHeader", reply_ext="consumer.pull:PullMessageResponseHeader", reply_body="records", since="5.0"),
    _rpc(RequestCode.QUERY_MESSAGE, "B", "query", "client", ext="query:QueryMessageRequestHeader", reply_ext="query:QueryMessageResponseHeader", reply_body="records"),
    _rpc(RequestCode.VIEW_MESSAGE_BY_ID, "B", "query", "client", ext="query:ViewMessageRequestHeader", reply_body="records"),
    _rpc(RequestCode.QUERY_CONSUME_QUEUE, "B", "admin", "client", ext="query:QueryConsumeQueueRequestHeader", reply_body="consumer.consume:QueryConsumeQueueResponseBody"),
    # --- offsets
    _rpc(RequestCode.QUERY_BROKER_OFFSET, "", "admin", "public"),
    _rpc(RequestCode.QUERY_CONSUMER_OFFSET, "BP", "consumer", "client", ext="consumer.offset:QueryConsumerOffsetRequestHeader", reply_ext="consumer.offset:OffsetResponseHeader"),
    _rpc(RequestCode.UPDATE_CONSUMER_OFFSET, "BP", "consumer", "client", ext="consumer.offset:UpdateConsumerOffsetRequestHeader"),
    _rpc(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, "BP", "admin", "public", ext="consumer.offset:SearchOffsetRequestHeader", reply_ext="consumer.offset:OffsetResponseHeader"),
    _rpc(RequestCode.GET_MAX_OFFSET, "BP", "admin", "public", ext="consumer.offset:GetMaxOffsetRequestHeader", reply_ext="consumer.offset:OffsetResponseHeader"),
    _rpc(RequestCode.GET_MIN_OFFSET, "BP", "admin", "public", ext="consumer.offset:QueueRequestHeader", reply_ext="consumer.offset:OffsetResponseHeader"),
    _rpc(RequestCode.GET_EARLIEST_MSG_STORETIME, "BP", "admin", "public", ext="consumer.offset:QueueRequestHeader", reply_ext="consumer.offset:EarliestMsgStoretimeResponseHeader"),
    _rpc(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, "C", "client", "member", ext="consumer.offset:ResetOffsetRequestHeader", body="consumer.offset:ResetOffsetBody"),
    _rpc(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, "C", "client", "member", ext="consumer.offset:GetConsumerStatusRequestHeader", reply_body="consumer.offset:GetConsumerStatusBody"),
    _rpc(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, "B", "admin", "administrator", ext="consumer.offset:ResetOffsetRequestHeader", reply_body="consumer.offset:ResetOffsetBody"),
    _rpc(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, "B", "admin", "administrator", ext="consumer.offset:GetConsumerStatusRequestHeader", reply_body="consumer.offset:GetConsumerStatusBody"),
    _rpc(RequestCode.CLONE_GROUP_OFFSET, "B", "admin", "administrator", ext="consumer.offset:CloneGroupOffsetRequestHeader"),
    # --- clients and rebalance
    _rpc(RequestCode.HEART_BEAT, "BP", "heartbeat", "client", body="consumer.heartbeat:HeartbeatData", reply_ext="client:HeartbeatResponseHeader"),
    _rpc(RequestCode.UNREGISTER_CLIENT, "BP", "client", "client", ext="client:UnregisterClientRequestHeader"),
    _rpc(RequestCode.CHECK_CLIENT_CONFIG, "BP", "client", "client", body="consumer.heartbeat:CheckClientRequestBody"),
    _rpc(RequestCode.GET_CLIENT_CONFIG, "", "client", "client", since="5.0"),
    _rpc(RequestCode.GET_CONSUMER_LIST_BY_GROUP, "BP", "consumer", "client", ext="client:ConsumerGroupRequestHeader", reply_body="consumer.connection:GetConsumerListByGroupResponseBody"),
    _rpc(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, "C", "client", "member", ext="client:ConsumerGroupRequestHeader"),
    _rpc(RequestCode.LOCK_BATCH_MQ, "BP", "admin", "client", body="consumer.lock:LockBatchRequestBody", reply_body="consumer.lock:LockBatchResponseBody"),
    _rpc(RequestCode.UNLOCK_BATCH_MQ, "BP", "admin", "client", body="consumer.lock:LockBatchRequestBody"),
    _rpc(RequestCode.GET_CONSUMER_CONNECTION_LIST, "BP", "admin", "public", ext="client:ConsumerGroupRequestHeader", reply_body="consumer.connection:ConsumerConnection"),
    _rpc(RequestCode.GET_PRODUCER_CONNECTION_LIST, "B", "admin", "public", ext="client:ProducerGroupRequestHeader", reply_body="consumer.connection:ProducerConnection"),
    _rpc(RequestCode.GET_ALL_PRODUCER_INFO, "B", "admin", "public", reply_body="consumer.connection:ProducerTableInfo", since="4.9.4"),
    _rpc(RequestCode.GET_CONSUMER_RUNNING_INFO, "BC", "admin", "administrator", ext="client:GetConsumerRunningInfoRequestHeader", reply_body="consumer.running:ConsumerRunningInfo"),
    _rpc(RequestCode.CONSUME_MESSAGE_DIRECTLY, "BC", "admin", "administrator", ext="client:ConsumeMessageDirectlyRequestHeader", body="records", reply_body="consumer.running:ConsumeMessageDirectlyResult"),
    # --- POP
    _rpc(RequestCode.POP_MESSAGE, "BP", "pull", "client", ext="consumer.pop:PopMessageRequestHeader", reply_ext="consumer.pop:PopMessageResponseHeader", reply_body="records", since="5.0"),
    _rpc(RequestCode.ACK_MESSAGE, "BP", "ack", "client", ext="consumer.pop:AckMessageRequestHeader", since="5.0"),
    _rpc(RequestCode.PEEK_MESSAGE, "B", "pull", "client", ext="consumer.pop:PeekMessageRequestHeader", reply_ext="consumer.pop:PopMessageResponseHeader", reply_body="records", since="5.0"),
    _rpc(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, "BP", "ack", "client", ext="consumer.pop:ChangeInvisibleTimeRequestHeader", reply_ext="consumer.pop:ChangeInvisibleTimeResponseHeader", since="5.0"),
    _rpc(RequestCode.NOTIFICATION, "B", "pull", "client", ext="consumer.pop:NotificationRequestHeader", reply_ext="consumer.pop:NotificationResponseHeader", since="5.0"),
    _rpc(RequestCode.POLLING_INFO, "B", "pull", "client", ext="consumer.pop:PollingInfoRequestHeader", reply_ext="consumer.pop:PollingInfoResponseHeader", since="5.0"),
    _rpc(RequestCode.POP_ROLLBACK, "B", "admin", "administrator", since="5.3.2"),
    _rpc(RequestCode.BATCH_ACK_MESSAGE, "B", "ack", "client", body="consumer.pop:BatchAckMessageRequestBody", since="5.1.3"),
    _rpc(RequestCode.QUERY_ASSIGNMENT, "B", "consumer", "client", body="consumer.lock:QueryAssignmentRequestBody", reply_body="consumer.lock:QueryAssignmentResponseBody", since="5.0"),
    _rpc(RequestCode.SET_MESSAGE_REQUEST_MODE, "B", "consumer", "administrator", body="consumer.lock:SetMessageRequestModeRequestBody", since="5.0"),
    _rpc(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, "B", "admin", "public", reply_body="consumer.lock:MessageRequestModeSerializeWrapper", since="5.0"),
    # --- topics
    _rpc(RequestCode.UPDATE_AND_CREATE_TOPIC, "B", "admin", "administrator", ext="topic:CreateTopicRequestHeader"),
    _rpc(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, "B", "admin", "administrator", body="topic:CreateTopicListRequestBody", since="5.3.0"),
    _rpc(RequestCode.GET_ALL_TOPIC_CONFIG, "B", "admin", "public", ext="topic:GetAllTopicConfigRequestHeader", reply_ext="topic:GetAllTopicConfigResponseHeader", reply_body="topic:TopicConfigAndMappingSerializeWrapper"),
    _rpc(RequestCode.GET_TOPIC_CONFIG_LIST, "", "admin", "public"),
    _rpc(RequestCode.GET_TOPIC_NAME_LIST, "", "admin", "public"),
    _rpc(RequestCode.GET_TOPIC_STATS_INFO, "B", "admin", "public", ext="topic:TopicNameRequestHeader", reply_body="topic:TopicStatsTable"),
    _rpc(RequestCode.DELETE_TOPIC_IN_BROKER, "B", "admin", "administrator", ext="topic:TopicNameRequestHeader"),
    _rpc(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, "B", "admin", "public", ext="topic:TopicNameRequestHeader", reply_body="consumer.group:GroupList"),
    _rpc(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, "B", "admin", "public", reply_body="namesrv.route:TopicList"),
    _rpc(RequestCode.GET_TOPIC_CONFIG, "B", "admin", "public", ext="topic:TopicNameRequestHeader", reply_body="topic:TopicConfigAndQueueMapping", since="5.0"),
    _rpc(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, "B", "admin", "administrator", ext="topic:CreateTopicRequestHeader", body="namesrv.route:TopicQueueMappingDetail", since="5.0"),
    # --- subscription groups
    _rpc(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, "B", "admin", "administrator", body="consumer.group:SubscriptionGroupBody"),
    _rpc(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "B", "admin", "public", ext="consumer.group:GetAllSubscriptionGroupRequestHeader", reply_ext="consumer.group:GetAllSubscriptionGroupResponseHeader", reply_body="consumer.group:SubscriptionGroupWrapper"),
    _rpc(RequestCode.DELETE_SUBSCRIPTIONGROUP, "B", "admin", "administrator", ext="consumer.group:DeleteSubscriptionGroupRequestHeader"),
    _rpc(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, "B", "admin", "administrator", body="consumer.group:SubscriptionGroupList", since="5.3.1"),
    _rpc(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, "B", "admin", "public", ext="consumer.group:GetSubscriptionGroupConfigRequestHeader", reply_body="consumer.group:SubscriptionGroupBody", since="5.0"),
    _rpc(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, "B", "admin", "administrator", ext="consumer.group:UpdateGroupForbiddenRequestHeader", reply_body="consumer.group:GroupForbidden", since="5.0"),
    # --- consumption state
    _rpc(RequestCode.GET_CONSUME_STATS, "B", "admin", "public", ext="consumer.consume:GetConsumeStatsRequestHeader", reply_body="consumer.consume:ConsumeStats"),
    _rpc(RequestCode.QUERY_CONSUME_TIME_SPAN, "B", "admin", "public", ext="consumer.consume:QueryConsumeTimeSpanRequestHeader", reply_body="consumer.consume:QueryConsumeTimeSpanBody"),
    _rpc(RequestCode.QUERY_CORRECTION_OFFSET, "B", "admin", "public", ext="consumer.consume:QueryCorrectionOffsetRequestHeader", reply_body="consumer.consume:QueryCorrectionOffsetBody"),
    _rpc(RequestCode.VIEW_BROKER_STATS_DATA, "B", "admin", "public", ext="consumer.consume:ViewBrokerStatsDataRequestHeader", reply_body="consumer.consume:BrokerStatsData"),
    _rpc(RequestCode.GET_BROKER_CONSUME_STATS, "B", "admin", "public", ext="consumer.consume:GetBrokerConsumeStatsRequestHeader", reply_body="consumer.consume:ConsumeStatsList"),
    _rpc(RequestCode.QUERY_TOPICS_BY_CONSUMER, "B", "admin", "public", ext="consumer.consume:QueryTopicsByConsumerRequestHeader", reply_body="namesrv.route:TopicList", since="5.0"),
    _rpc(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, "B", "admin", "public", ext="consumer.consume:QuerySubscriptionByConsumerRequestHeader", reply_body="consumer.consume:QuerySubscriptionResponseBody", since="5.0"),
    _rpc(RequestCode.SUSPEND_CONSUMER, "", "admin", "administrator"),
    _rpc(RequestCode.RESUME_CONSUMER, "", "admin", "administrator"),
    _rpc(RequestCode.RESET_CONSUMER_OFFSET_IN_CONSUMER, "", "admin", "administrator"),
    _rpc(RequestCode.RESET_CONSUMER_OFFSET_IN_BROKER, "", "admin", "administrator"),
    _rpc(RequestCode.ADJUST_CONSUMER_THREAD_POOL, "", "admin", "administrator"),
    _rpc(RequestCode.WHO_CONSUME_THE_MESSAGE, "", "admin", "public"),
    _rpc(RequestCode.REGISTER_FILTER_SERVER, "", "admin", "administrator"),
    _rpc(RequestCode.REGISTER_MESSAGE_FILTER_CLASS, "", "admin", "administrator"),
    # --- broker operations
    _rpc(RequestCode.UPDATE_BROKER_CONFIG, "BX", "admin", "administrator", body="text"),
    _rpc(RequestCode.GET_BROKER_CONFIG, "BX", "admin", "public", reply_ext="broker:GetBrokerConfigResponseHeader", reply_body="text"),
    _rpc(RequestCode.TRIGGER_DELETE_FILES, "", "admin", "administrator"),
    _rpc(RequestCode.GET_BROKER_RUNTIME_INFO, "B", "admin", "public", reply_body="namesrv.kv:KVTable"),
    _rpc(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, "B", "admin", "administrator"),
    _rpc(RequestCode.CLEAN_UNUSED_TOPIC, "B", "admin", "administrator"),
    _rpc(RequestCode.DELETE_EXPIRED_COMMITLOG, "B", "admin", "administrator"),
    _rpc(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, "B", "admin", "administrator", body="text", since="5.1.2"),
    _rpc(RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, "B", "admin", "administrator", body="text", since="5.1.2"),
    _rpc(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO, "B", "admin", "public", reply_body="state:ColdDataFlowInfo", since="5.1.2"),
    _rpc(RequestCode.SET_COMMITLOG_READ_MODE, "B", "admin", "administrator", ext="broker:SetCommitLogReadModeRequestHeader", since="5.1.2"),
    _rpc(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, "B", "admin", "public", ext="consumer.consume:CheckRocksdbCqWriteProgressRequestHeader", reply_body="state:CheckRocksdbCqWriteResult", since="5.3.1"),
    _rpc(RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, "B", "admin", "administrator", ext="broker:ExportRocksdbConfigRequestHeader", since="5.3.2"),
    # --- replication and slaves
    _rpc(RequestCode.GET_ALL_CONSUMER_OFFSET, "B", "admin", "public", reply_body="consumer.offset:ConsumerOffsetSerializeWrapper"),
    _rpc(RequestCode.GET_ALL_DELAY_OFFSET, "B", "admin", "public", reply_body="consumer.offset:DelayOffsetSerializeWrapper"),
    _rpc(RequestCode.GET_TIMER_CHECK_POINT, "B", "admin", "public", reply_body="timer:TimerCheckpoint", since="5.0"),
    _rpc(RequestCode.GET_TIMER_METRICS, "B", "admin", "public", reply_body="timer:TimerMetrics", since="5.0"),
    _rpc(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, "B", "admin", "member", ext="broker:NotifyMinBrokerIdChangeRequestHeader", since="5.0"),
    _rpc(RequestCode.EXCHANGE_BROKER_HA_INFO, "B", "admin", "member", ext="broker:ExchangeHAInfoHeader", reply_ext="broker:ExchangeHAInfoHeader", since="5.0"),
    _rpc(RequestCode.GET_BROKER_HA_STATUS, "B", "admin", "public", reply_body="ha:HARuntimeInfo", since="5.0"),
    _rpc(RequestCode.RESET_MASTER_FLUSH_OFFSET, "B", "admin", "member", ext="broker:ResetMasterFlushOffsetRequestHeader", since="5.0"),
    _rpc(RequestCode.GET_BROKER_EPOCH_CACHE, "B", "admin", "public", reply_body="ha:EpochEntryCache", since="5.0"),
    _rpc(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, "B", "admin", "member", ext="broker:NotifyBrokerRoleChangedRequestHeader", body="ha:SyncStateSet", since="5.0"),
    # --- role changes; not of RocketMQ
    _rpc(RequestCode.GET_BROKER_ROLE, "B", "admin", "public", reply_body="role:BrokerRoleInfo"),
    _rpc(RequestCode.CHANGE_BROKER_ROLE, "B", "admin", "administrator", ext="role:ChangeBrokerRoleRequestHeader", body="role:RoleProperties", reply_body="role:BrokerRoleInfo"),
    _rpc(RequestCode.GET_LOG_CHECKSUM, "B", "admin", "administrator", ext="role:GetLogChecksumRequestHeader", reply_ext="role:GetLogChecksumResponseHeader"),
    # --- users and access rules
    _rpc(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, "B", "admin", "administrator", ext="auth:CreateAccessConfigRequestHeader", until="5.3.2"),
    _rpc(RequestCode.DELETE_ACL_CONFIG, "B", "admin", "administrator", ext="auth:DeleteAccessConfigRequestHeader", until="5.3.2"),
    _rpc(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, "B", "admin", "public", reply_ext="auth:GetBrokerAclConfigResponseHeader", until="5.3.2"),
    _rpc(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, "B", "admin", "administrator", ext="auth:UpdateGlobalWhiteAddrsRequestHeader", until="5.3.2"),
    _rpc(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, "", "admin", "administrator", since="5.0", until="5.3.2"),
    _rpc(RequestCode.AUTH_CREATE_USER, "B", "admin", "administrator", ext="auth:UserRequestHeader", body="auth:UserInfo", since="5.3.0"),
    _rpc(RequestCode.AUTH_UPDATE_USER, "B", "admin", "administrator", ext="auth:UserRequestHeader", body="auth:UserInfo", since="5.3.0"),
    _rpc(RequestCode.AUTH_DELETE_USER, "B", "admin", "administrator", ext="auth:UserRequestHeader", since="5.3.0"),
    _rpc(RequestCode.AUTH_GET_USER, "B", "admin", "administrator", ext="auth:UserRequestHeader", reply_body="auth:UserInfo", since="5.3.0"),
    _rpc(RequestCode.AUTH_LIST_USER, "B", "admin", "administrator", ext="auth:ListUsersRequestHeader", reply_body="auth:UserList", since="5.3.0"),
    _rpc(RequestCode.AUTH_CREATE_ACL, "B", "admin", "administrator", ext="auth:AclRequestHeader", body="auth:AclInfo", since="5.3.0"),
    _rpc(RequestCode.AUTH_UPDATE_ACL, "B", "admin", "administrator", ext="auth:AclRequestHeader", body="auth:AclInfo", since="5.3.0"),
    _rpc(RequestCode.AUTH_DELETE_ACL, "B", "admin", "administrator", ext="auth:DeleteAclRequestHeader", since="5.3.0"),
    _rpc(RequestCode.AUTH_GET_ACL, "B", "admin", "administrator", ext="auth:AclRequestHeader", reply_body="auth:AclInfo", since="5.3.0"),
    _rpc(RequestCode.AUTH_LIST_ACL, "B", "admin", "administrator", ext="auth:ListAclsRequestHeader", reply_body="auth:AclList", since="5.3.0"),
    # --- name server
    _rpc(RequestCode.PUT_KV_CONFIG, "N", "namesrv", "administrator", ext="namesrv.kv:PutKVConfigRequestHeader"),
    _rpc(RequestCode.GET_KV_CONFIG, "N", "namesrv", "public", ext="namesrv.kv:KVConfigRequestHeader", reply_ext="namesrv.kv:GetKVConfigResponseHeader"),
    _rpc(RequestCode.DELETE_KV_CONFIG, "N", "namesrv", "administrator", ext="namesrv.kv:KVConfigRequestHeader"),
    _rpc(RequestCode.REGISTER_BROKER, "N", "namesrv", "member", ext="namesrv.route:RegisterBrokerRequestHeader", body="namesrv.register:RegisterBrokerBody", reply_ext="namesrv.route:RegisterBrokerResponseHeader", reply_body="namesrv.kv:KVTable"),
    _rpc(RequestCode.UNREGISTER_BROKER, "N", "namesrv", "member", ext="namesrv.route:UnregisterBrokerRequestHeader"),
    _rpc(RequestCode.GET_ROUTEINFO_BY_TOPIC, "NP", "route", "public", ext="namesrv.route:GetRouteInfoRequestHeader", reply_body="namesrv.route:TopicRouteData"),
    _rpc(RequestCode.GET_BROKER_CLUSTER_INFO, "N", "namesrv", "public", reply_body="namesrv.cluster:ClusterInfo"),
    _rpc(RequestCode.WIPE_WRITE_PERM_OF_BROKER, "N", "namesrv", "administrator", ext="namesrv.route:BrokerNameRequestHeader", reply_ext="namesrv.route:WipeWritePermResponseHeader"),
    _rpc(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, "N", "namesrv", "public", reply_body="namesrv.route:TopicList"),
    _rpc(RequestCode.DELETE_TOPIC_IN_NAMESRV, "N", "namesrv", "administrator", ext="namesrv.route:DeleteTopicFromNamesrvRequestHeader"),
    _rpc(RequestCode.REGISTER_TOPIC_IN_NAMESRV, "N", "namesrv", "member", ext="topic:TopicNameRequestHeader", body="namesrv.route:TopicRouteData", since="5.0"),
    _rpc(RequestCode.GET_KVLIST_BY_NAMESPACE, "N", "namesrv", "public", ext="namesrv.kv:GetKVListByNamespaceRequestHeader", reply_body="namesrv.kv:KVTable"),
    _rpc(RequestCode.GET_TOPICS_BY_CLUSTER, "N", "namesrv", "public", ext="namesrv.route:GetTopicsByClusterRequestHeader", reply_body="namesrv.route:TopicList"),
    _rpc(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, "N", "namesrv", "public", reply_body="namesrv.route:TopicList"),
    _rpc(RequestCode.GET_UNIT_TOPIC_LIST, "N", "namesrv", "public", reply_body="namesrv.route:TopicList"),
    _rpc(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, "N", "namesrv", "public", reply_body="namesrv.route:TopicList"),
    _rpc(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, "N", "namesrv", "public", reply_body="namesrv.route:TopicList"),
    _rpc(RequestCode.UPDATE_NAMESRV_CONFIG, "N", "namesrv", "administrator", body="text"),
    _rpc(RequestCode.GET_NAMESRV_CONFIG, "N", "namesrv", "public", reply_body="text"),
    _rpc(RequestCode.QUERY_DATA_VERSION, "N", "namesrv", "member", ext="namesrv.route:QueryDataVersionRequestHeader", body="version:DataVersion", reply_ext="namesrv.route:QueryDataVersionResponseHeader", reply_body="version:DataVersion"),
    _rpc(RequestCode.ADD_WRITE_PERM_OF_BROKER, "N", "namesrv", "administrator", ext="namesrv.route:BrokerNameRequestHeader", reply_ext="namesrv.route:AddWritePermResponseHeader", since="4.9.2"),
    _rpc(RequestCode.GET_BROKER_MEMBER_GROUP, "N", "namesrv", "public", ext="namesrv.route:GetBrokerMemberGroupRequestHeader", reply_body="namesrv.cluster:GetBrokerMemberGroupResponseBody", since="5.0"),
    _rpc(RequestCode.BROKER_HEARTBEAT, "KN", "namesrv", "member", ext="namesrv.route:BrokerHeartbeatRequestHeader", since="5.0"),
    # --- containers and controllers
    _rpc(RequestCode.ADD_BROKER, "X", "admin", "administrator", ext="broker:AddBrokerRequestHeader", since="5.0"),
    _rpc(RequestCode.REMOVE_BROKER, "X", "admin", "administrator", ext="broker:RemoveBrokerRequestHeader", since="5.0"),
    _rpc(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, "K", "controller", "member", ext="controller:AlterSyncStateSetRequestHeader", body="ha:SyncStateSet", reply_ext="controller:AlterSyncStateSetResponseHeader", reply_body="ha:SyncStateSet", since="5.0"),
    _rpc(RequestCode.CONTROLLER_ELECT_MASTER, "K", "controller", "administrator", ext="controller:ElectMasterRequestHeader", reply_ext="controller:ElectMasterResponseHeader", reply_body="ha:ElectMasterResponseBody", since="5.0"),
    _rpc(RequestCode.CONTROLLER_REGISTER_BROKER, "K", "controller", "member", ext="controller:RegisterBrokerToControllerRequestHeader", reply_ext="controller:RegisterBrokerToControllerResponseHeader", since="5.0"),
    _rpc(RequestCode.CONTROLLER_GET_REPLICA_INFO, "K", "controller", "public", ext="controller:GetReplicaInfoRequestHeader", reply_ext="controller:GetReplicaInfoResponseHeader", reply_body="ha:SyncStateSet", since="5.0"),
    _rpc(RequestCode.CONTROLLER_GET_METADATA_INFO, "K", "controller", "public", reply_ext="controller:GetMetaDataResponseHeader", since="5.0"),
    _rpc(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, "K", "controller", "public", body="ha:BrokerNameList", reply_body="ha:BrokerReplicasInfo", since="5.0"),
    _rpc(RequestCode.UPDATE_CONTROLLER_CONFIG, "K", "controller", "administrator", body="text", since="5.0"),
    _rpc(RequestCode.GET_CONTROLLER_CONFIG, "K", "controller", "administrator", reply_body="text", since="5.0"),
    _rpc(RequestCode.CLEAN_BROKER_DATA, "K", "controller", "administrator", ext="controller:CleanBrokerDataRequestHeader", since="5.0"),
    _rpc(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, "K", "controller", "member", ext="controller:GetNextBrokerIdRequestHeader", reply_ext="controller:GetNextBrokerIdResponseHeader", since="5.1.1"),
    _rpc(RequestCode.CONTROLLER_APPLY_BROKER_ID, "K", "controller", "member", ext="controller:ApplyBrokerIdRequestHeader", reply_ext="controller:ApplyBrokerIdResponseHeader", since="5.1.1"),
    _rpc(RequestCode.BROKER_CLOSE_CHANNEL_REQUEST, "K", "controller", "member", since="5.2"),
    _rpc(RequestCode.CHECK_NOT_ACTIVE_BROKER_REQUEST, "K", "controller", "member", since="5.2"),
    _rpc(RequestCode.GET_BROKER_LIVE_INFO_REQUEST, "K", "controller", "member", since="5.2"),
    _rpc(RequestCode.GET_SYNC_STATE_DATA_REQUEST, "", "controller", "member", since="5.2"),
    _rpc(RequestCode.RAFT_BROKER_HEART_BEAT_EVENT_REQUEST, "K", "controller", "member", since="5.2"),
)
# fmt: on

RPC: Final[dict[int, Rpc]] = {row.code: row for row in _ROWS}
"""Request code to its row."""
