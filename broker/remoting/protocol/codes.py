"""Numeric codes of the protocol and their names: requests, responses, languages, versions.

The codes are plain integers in classes, because an enum costs start-up time in every command and
peers may send unknown codes.

**Source:** RocketMQ ``RequestCode``, ``ResponseCode``, ``LanguageCode``, ``MQVersion``.
"""

from functools import cache
from typing import Final


class RequestCode:
    """Request codes; ``rpc.RPC`` defines types and serving roles of each one.

    **Source:** RocketMQ ``RequestCode`` (4.9.8 and 5.3.3; 50-54 exist up to 5.3.2).
    """

    SEND_MESSAGE: Final = 10
    PULL_MESSAGE: Final = 11
    QUERY_MESSAGE: Final = 12
    QUERY_BROKER_OFFSET: Final = 13
    QUERY_CONSUMER_OFFSET: Final = 14
    UPDATE_CONSUMER_OFFSET: Final = 15
    UPDATE_AND_CREATE_TOPIC: Final = 17
    UPDATE_AND_CREATE_TOPIC_LIST: Final = 18
    GET_ALL_TOPIC_CONFIG: Final = 21
    GET_TOPIC_CONFIG_LIST: Final = 22
    GET_TOPIC_NAME_LIST: Final = 23
    UPDATE_BROKER_CONFIG: Final = 25
    GET_BROKER_CONFIG: Final = 26
    TRIGGER_DELETE_FILES: Final = 27
    GET_BROKER_RUNTIME_INFO: Final = 28
    SEARCH_OFFSET_BY_TIMESTAMP: Final = 29
    GET_MAX_OFFSET: Final = 30
    GET_MIN_OFFSET: Final = 31
    GET_EARLIEST_MSG_STORETIME: Final = 32
    VIEW_MESSAGE_BY_ID: Final = 33
    HEART_BEAT: Final = 34
    UNREGISTER_CLIENT: Final = 35
    CONSUMER_SEND_MSG_BACK: Final = 36
    END_TRANSACTION: Final = 37
    GET_CONSUMER_LIST_BY_GROUP: Final = 38
    CHECK_TRANSACTION_STATE: Final = 39
    NOTIFY_CONSUMER_IDS_CHANGED: Final = 40
    LOCK_BATCH_MQ: Final = 41
    UNLOCK_BATCH_MQ: Final = 42
    GET_ALL_CONSUMER_OFFSET: Final = 43
    GET_ALL_DELAY_OFFSET: Final = 45
    CHECK_CLIENT_CONFIG: Final = 46
    GET_CLIENT_CONFIG: Final = 47
    UPDATE_AND_CREATE_ACL_CONFIG: Final = 50
    DELETE_ACL_CONFIG: Final = 51
    GET_BROKER_CLUSTER_ACL_INFO: Final = 52
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: Final = 53
    GET_BROKER_CLUSTER_ACL_CONFIG: Final = 54
    GET_TIMER_CHECK_POINT: Final = 60
    GET_TIMER_METRICS: Final = 61
    PUT_KV_CONFIG: Final = 100
    GET_KV_CONFIG: Final = 101
    DELETE_KV_CONFIG: Final = 102
    REGISTER_BROKER: Final = 103
    UNREGISTER_BROKER: Final = 104
    GET_ROUTEINFO_BY_TOPIC: Final = 105
    GET_BROKER_CLUSTER_INFO: Final = 106
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Final = 200
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Final = 201
    GET_TOPIC_STATS_INFO: Final = 202
    GET_CONSUMER_CONNECTION_LIST: Final = 203
    GET_PRODUCER_CONNECTION_LIST: Final = 204
    WIPE_WRITE_PERM_OF_BROKER: Final = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Final = 206
    DELETE_SUBSCRIPTIONGROUP: Final = 207
    GET_CONSUME_STATS: Final = 208
    SUSPEND_CONSUMER: Final = 209
    RESUME_CONSUMER: Final = 210
    RESET_CONSUMER_OFFSET_IN_CONSUMER: Final = 211
    RESET_CONSUMER_OFFSET_IN_BROKER: Final = 212
    ADJUST_CONSUMER_THREAD_POOL: Final = 213
    WHO_CONSUME_THE_MESSAGE: Final = 214
    DELETE_TOPIC_IN_BROKER: Final = 215
    DELETE_TOPIC_IN_NAMESRV: Final = 216
    REGISTER_TOPIC_IN_NAMESRV: Final = 217
    GET_KVLIST_BY_NAMESPACE: Final = 219
    RESET_CONSUMER_CLIENT_OFFSET: Final = 220
    GET_CONSUMER_STATUS_FROM_CLIENT: Final = 221
    INVOKE_BROKER_TO_RESET_OFFSET: Final = 222
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Final = 223
    GET_TOPICS_BY_CLUSTER: Final = 224
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Final = 225
    QUERY_TOPIC_CONSUME_BY_WHO: Final = 300
    REGISTER_FILTER_SERVER: Final = 301
    REGISTER_MESSAGE_FILTER_CLASS: Final = 302
    QUERY_CONSUME_TIME_SPAN: Final = 303
    GET_SYSTEM_TOPIC_LIST_FROM_NS: Final = 304
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Final = 305
    CLEAN_EXPIRED_CONSUMEQUEUE: Final = 306
    GET_CONSUMER_RUNNING_INFO: Final = 307
    QUERY_CORRECTION_OFFSET: Final = 308
    CONSUME_MESSAGE_DIRECTLY: Final = 309
    SEND_MESSAGE_V2: Final = 310
    GET_UNIT_TOPIC_LIST: Final = 311
    GET_HAS_UNIT_SUB_TOPIC_LIST: Final = 312
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: Final = 313
    CLONE_GROUP_OFFSET: Final = 314
    VIEW_BROKER_STATS_DATA: Final = 315
    CLEAN_UNUSED_TOPIC: Final = 316
    GET_BROKER_CONSUME_STATS: Final = 317
    UPDATE_NAMESRV_CONFIG: Final = 318
    GET_NAMESRV_CONFIG: Final = 319
    SEND_BATCH_MESSAGE: Final = 320
    QUERY_CONSUME_QUEUE: Final = 321
    QUERY_DATA_VERSION: Final = 322
    RESUME_CHECK_HALF_MESSAGE: Final = 323
    SEND_REPLY_MESSAGE: Final = 324
    SEND_REPLY_MESSAGE_V2: Final = 325
    PUSH_REPLY_MESSAGE_TO_CLIENT: Final = 326
    ADD_WRITE_PERM_OF_BROKER: Final = 327
    GET_ALL_PRODUCER_INFO: Final = 328
    DELETE_EXPIRED_COMMITLOG: Final = 329
    QUERY_TOPICS_BY_CONSUMER: Final = 343
    QUERY_SUBSCRIPTION_BY_CONSUMER: Final = 345
    GET_TOPIC_CONFIG: Final = 351
    GET_SUBSCRIPTIONGROUP_CONFIG: Final = 352
    UPDATE_AND_GET_GROUP_FORBIDDEN: Final = 353
    CHECK_ROCKSDB_CQ_WRITE_PROGRESS: Final = 354
    EXPORT_ROCKSDB_CONFIG_TO_JSON: Final = 355
    LITE_PULL_MESSAGE: Final = 361
    RECALL_MESSAGE: Final = 370
    QUERY_ASSIGNMENT: Final = 400
    SET_MESSAGE_REQUEST_MODE: Final = 401
    GET_ALL_MESSAGE_REQUEST_MODE: Final = 402
    UPDATE_AND_CREATE_STATIC_TOPIC: Final = 513
    GET_BROKER_MEMBER_GROUP: Final = 901
    ADD_BROKER: Final = 902
    REMOVE_BROKER: Final = 903
    BROKER_HEARTBEAT: Final = 904
    NOTIFY_MIN_BROKER_ID_CHANGE: Final = 905
    EXCHANGE_BROKER_HA_INFO: Final = 906
    GET_BROKER_HA_STATUS: Final = 907
    RESET_MASTER_FLUSH_OFFSET: Final = 908
    CONTROLLER_ALTER_SYNC_STATE_SET: Final = 1001
    CONTROLLER_ELECT_MASTER: Final = 1002
    CONTROLLER_REGISTER_BROKER: Final = 1003
    CONTROLLER_GET_REPLICA_INFO: Final = 1004
    CONTROLLER_GET_METADATA_INFO: Final = 1005
    CONTROLLER_GET_SYNC_STATE_DATA: Final = 1006
    GET_BROKER_EPOCH_CACHE: Final = 1007
    NOTIFY_BROKER_ROLE_CHANGED: Final = 1008
    UPDATE_CONTROLLER_CONFIG: Final = 1009
    GET_CONTROLLER_CONFIG: Final = 1010
    CLEAN_BROKER_DATA: Final = 1011
    CONTROLLER_GET_NEXT_BROKER_ID: Final = 1012
    CONTROLLER_APPLY_BROKER_ID: Final = 1013
    BROKER_CLOSE_CHANNEL_REQUEST: Final = 1014
    CHECK_NOT_ACTIVE_BROKER_REQUEST: Final = 1015
    GET_BROKER_LIVE_INFO_REQUEST: Final = 1016
    GET_SYNC_STATE_DATA_REQUEST: Final = 1017
    RAFT_BROKER_HEART_BEAT_EVENT_REQUEST: Final = 1018
    UPDATE_COLD_DATA_FLOW_CTR_CONFIG: Final = 2001
    REMOVE_COLD_DATA_FLOW_CTR_CONFIG: Final = 2002
    GET_COLD_DATA_FLOW_CTR_INFO: Final = 2003
    SET_COMMITLOG_READ_MODE: Final = 2004
    AUTH_CREATE_USER: Final = 3001
    AUTH_UPDATE_USER: Final = 3002
    AUTH_DELETE_USER: Final = 3003
    AUTH_GET_USER: Final = 3004
    AUTH_LIST_USER: Final = 3005
    AUTH_CREATE_ACL: Final = 3006
    AUTH_UPDATE_ACL: Final = 3007
    AUTH_DELETE_ACL: Final = 3008
    AUTH_GET_ACL: Final = 3009
    AUTH_LIST_ACL: Final = 3010
    # Of this project, not of RocketMQ: no Java broker knows them. They fit the 16 bits that the
    # ROCKETMQ header form has for a code.
    GET_BROKER_ROLE: Final = 20_001
    CHANGE_BROKER_ROLE: Final = 20_002
    GET_LOG_CHECKSUM: Final = 20_003
    POP_MESSAGE: Final = 200050
    ACK_MESSAGE: Final = 200051
    PEEK_MESSAGE: Final = 200052
    CHANGE_MESSAGE_INVISIBLETIME: Final = 200053
    NOTIFICATION: Final = 200054
    POLLING_INFO: Final = 200055
    POP_ROLLBACK: Final = 200056
    BATCH_ACK_MESSAGE: Final = 200151


class ResponseCode:
    """Response codes; 209-211 have the 5.x meaning (4.9 used them for ACL failures).

    **Source:** RocketMQ ``RemotingSysResponseCode``, ``ResponseCode``.
    """

    SUCCESS: Final = 0
    SYSTEM_ERROR: Final = 1
    SYSTEM_BUSY: Final = 2
    REQUEST_CODE_NOT_SUPPORTED: Final = 3
    TRANSACTION_FAILED: Final = 4
    FLUSH_DISK_TIMEOUT: Final = 10
    SLAVE_NOT_AVAILABLE: Final = 11
    FLUSH_SLAVE_TIMEOUT: Final = 12
    MESSAGE_ILLEGAL: Final = 13
    SERVICE_NOT_AVAILABLE: Final = 14
    VERSION_NOT_SUPPORTED: Final = 15
    NO_PERMISSION: Final = 16
    TOPIC_NOT_EXIST: Final = 17
    TOPIC_EXIST_ALREADY: Final = 18
    PULL_NOT_FOUND: Final = 19
    PULL_RETRY_IMMEDIATELY: Final = 20
    PULL_OFFSET_MOVED: Final = 21
    QUERY_NOT_FOUND: Final = 22
    SUBSCRIPTION_PARSE_FAILED: Final = 23
    SUBSCRIPTION_NOT_EXIST: Final = 24
    SUBSCRIPTION_NOT_LATEST: Final = 25
    SUBSCRIPTION_GROUP_NOT_EXIST: Final = 26
    FILTER_DATA_NOT_EXIST: Final = 27
    FILTER_DATA_NOT_LATEST: Final = 28
    INVALID_PARAMETER: Final = 29
    TRANSACTION_SHOULD_COMMIT: Final = 200
    TRANSACTION_SHOULD_ROLLBACK: Final = 201
    TRANSACTION_STATE_UNKNOW: Final = 202
    TRANSACTION_STATE_GROUP_WRONG: Final = 203
    NO_BUYER_ID: Final = 204
    NOT_IN_CURRENT_UNIT: Final = 205
    CONSUMER_NOT_ONLINE: Final = 206
    CONSUME_MSG_TIMEOUT: Final = 207
    NO_MESSAGE: Final = 208
    POLLING_FULL: Final = 209
    POLLING_TIMEOUT: Final = 210
    BROKER_NOT_EXIST: Final = 211
    BROKER_DISPATCH_NOT_COMPLETE: Final = 212
    BROADCAST_CONSUMPTION: Final = 213
    FLOW_CONTROL: Final = 215
    NOT_LEADER_FOR_QUEUE: Final = 501
    ILLEGAL_OPERATION: Final = 604
    GO_AWAY: Final = 1500
    CONTROLLER_FENCED_MASTER_EPOCH: Final = 2000
    CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH: Final = 2001
    CONTROLLER_INVALID_MASTER: Final = 2002
    CONTROLLER_INVALID_REPLICAS: Final = 2003
    CONTROLLER_MASTER_NOT_AVAILABLE: Final = 2004
    CONTROLLER_INVALID_REQUEST: Final = 2005
    CONTROLLER_BROKER_NOT_ALIVE: Final = 2006
    CONTROLLER_NOT_LEADER: Final = 2007
    CONTROLLER_BROKER_METADATA_NOT_EXIST: Final = 2008
    CONTROLLER_INVALID_CLEAN_BROKER_METADATA: Final = 2009
    CONTROLLER_BROKER_NEED_TO_BE_REGISTERED: Final = 2010
    CONTROLLER_MASTER_STILL_EXIST: Final = 2011
    CONTROLLER_ELECT_MASTER_FAILED: Final = 2012
    CONTROLLER_ALTER_SYNC_STATE_SET_FAILED: Final = 2013
    CONTROLLER_BROKER_ID_INVALID: Final = 2014
    CONTROLLER_JRAFT_INTERNAL_ERROR: Final = 2015
    CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS: Final = 2016
    USER_NOT_EXIST: Final = 3001
    POLICY_NOT_EXIST: Final = 3002


LANGUAGES: Final = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
)
"""Language names in the order of their codes; NODE_JS is 5.x only."""

LANGUAGE_CODES: Final = {name: code for code, name in enumerate(LANGUAGES)}

LANGUAGE_OTHER: Final = 7

LANGUAGE: Final = "PYTHON"
"""The language of this implementation in headers."""

VERSION: Final = 479
"""The release whose protocol is implemented: V5_3_3.

Clients refuse SQL92 on a broker with a version below 232; a name server returns standard JSON
from 401 on.
"""

_V4_0_0_SNAPSHOT: Final = 212
_HIGHER_VERSION: Final = 612  # one past V5_9_9
_OLD_VERSIONS: Final = {37: "V3_0_11", 79: "V3_2_6", 121: "V3_4_9", 137: "V3_5_8"}


@cache
def _names(table: type) -> dict[int, str]:
    return {value: name for name, value in vars(table).items() if name.isupper()}


def request_name(code: int) -> str:
    """Return the name of a request code (``SEND_MESSAGE``), or the number as text if unknown."""
    return _names(RequestCode).get(code) or str(code)


def response_name(code: int) -> str:
    """Return the name of a response code, or the number as text if unknown."""
    return _names(ResponseCode).get(code) or str(code)


def language_code(language: str | int) -> int:
    """Return the code of a language name, OTHER if unknown; a number is returned as one byte."""
    if isinstance(language, int):
        return language & 0xFF
    return LANGUAGE_CODES.get(language, LANGUAGE_OTHER)


def language_name(code: int) -> str | int:
    """Return the name of a language code, or the number if unknown."""
    return LANGUAGES[code] if 0 <= code < len(LANGUAGES) else code


def version_name(version: int) -> str:
    """Return the release of a header version: 479 -> ``V5_3_3``, 478 -> ``V5_3_3_SNAPSHOT``.

    From 4.0.0 on every minor release has ten patch slots of two numbers (snapshot, final). Of
    the older releases only some are known; the others become ``V3(n)``.

    **Source:** RocketMQ ``MQVersion#getVersionDesc``.
    """
    if version >= _HIGHER_VERSION:
        return "HIGHER_VERSION"
    if version < _V4_0_0_SNAPSHOT:
        return _OLD_VERSIONS.get(version, f"V3({version})")
    slot, final = divmod(version - _V4_0_0_SNAPSHOT, 2)
    minor, patch = divmod(slot, 10)
    major, minor = divmod(minor, 10)
    return f"V{4 + major}_{minor}_{patch}" + ("" if final else "_SNAPSHOT")
