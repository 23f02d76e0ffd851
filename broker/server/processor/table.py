"""Handlers by request code, and when their modules are imported.

Send, pull, query and offset are bound at start: they are hot, and the first client uses them.
The other families are imported by the first request that needs them, which keeps the start of
the daemon short.
"""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from broker.remoting.protocol.codes import RequestCode as Code
from broker.remoting.protocol.command import RemotingCommand
from broker.server.context import BrokerContext
from broker.server.processor import offset, query
from broker.server.processor.pull import PullMessageProcessor
from broker.server.processor.pull import make_handlers as pull_handlers
from broker.server.processor.responses import persisted_first
from broker.server.processor.send.send import SendMessageProcessor, handlers_of
from broker.server.static_topic.requests import SERVED, StaticRequests

if TYPE_CHECKING:
    from broker.remoting.server import Connection, Handler

LAZY: Final[dict[str, tuple[int, ...]]] = {
    "broker.server.processor.admin.broker_config": (
        Code.GET_BROKER_CONFIG,
        Code.UPDATE_BROKER_CONFIG,
    ),
    "client": (
        Code.HEART_BEAT,
        Code.UNREGISTER_CLIENT,
        Code.CHECK_CLIENT_CONFIG,
        Code.GET_CONSUMER_LIST_BY_GROUP,
    ),
    "connection": (
        Code.GET_CONSUMER_CONNECTION_LIST,
        Code.GET_PRODUCER_CONNECTION_LIST,
        Code.GET_ALL_PRODUCER_INFO,
    ),
    "broker.server.processor.admin.consume_queue": (Code.QUERY_CONSUME_QUEUE,),
    "broker.server.processor.admin.consume_stats": (
        Code.GET_CONSUME_STATS,
        Code.GET_BROKER_CONSUME_STATS,
        Code.QUERY_CONSUME_TIME_SPAN,
        Code.QUERY_CORRECTION_OFFSET,
        Code.QUERY_TOPICS_BY_CONSUMER,
        Code.QUERY_SUBSCRIPTION_BY_CONSUMER,
        Code.VIEW_BROKER_STATS_DATA,
    ),
    "broker.server.processor.admin.group": (
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        Code.DELETE_SUBSCRIPTIONGROUP,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        Code.GET_SUBSCRIPTIONGROUP_CONFIG,
        Code.UPDATE_AND_GET_GROUP_FORBIDDEN,
    ),
    "lock": (Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ),
    "stubs": (
        Code.GET_BROKER_HA_STATUS,
        Code.SET_COMMITLOG_READ_MODE,
        Code.EXPORT_ROCKSDB_CONFIG_TO_JSON,
        Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS,
    ),
    "broker.server.ha.requests": (
        Code.NOTIFY_MIN_BROKER_ID_CHANGE,
        Code.EXCHANGE_BROKER_HA_INFO,
    ),
    "broker.server.role.processor": (
        Code.GET_BROKER_ROLE,
        Code.CHANGE_BROKER_ROLE,
        Code.GET_BROKER_EPOCH_CACHE,
        Code.GET_LOG_CHECKSUM,
    ),
    "client_forwarding": (Code.GET_CONSUMER_RUNNING_INFO, Code.CONSUME_MESSAGE_DIRECTLY),
    "broker.server.processor.admin.reset": (
        Code.INVOKE_BROKER_TO_RESET_OFFSET,
        Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        Code.CLONE_GROUP_OFFSET,
    ),
    "broker.server.cold_data.processor": (
        Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
        Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
        Code.GET_COLD_DATA_FLOW_CTR_INFO,
    ),
    "broker.server.reply.send_reply": (Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2),
    "broker.server.static_topic.admin": (Code.UPDATE_AND_CREATE_STATIC_TOPIC,),
    "broker.server.processor.admin.runtime": (Code.GET_BROKER_RUNTIME_INFO,),
    "broker.server.timer.requests": (
        Code.RECALL_MESSAGE,
        Code.GET_TIMER_CHECK_POINT,
        Code.GET_TIMER_METRICS,
    ),
    "broker.server.processor.send.send_back": (Code.CONSUMER_SEND_MSG_BACK,),
    "broker.server.transaction.processor": (Code.END_TRANSACTION, Code.RESUME_CHECK_HALF_MESSAGE),
    "broker.server.processor.admin.topic": (
        Code.UPDATE_AND_CREATE_TOPIC,
        Code.UPDATE_AND_CREATE_TOPIC_LIST,
        Code.DELETE_TOPIC_IN_BROKER,
        Code.GET_ALL_TOPIC_CONFIG,
        Code.GET_TOPIC_CONFIG,
        Code.GET_TOPIC_STATS_INFO,
        Code.QUERY_TOPIC_CONSUME_BY_WHO,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    ),
    "broker.server.processor.admin.maintenance": (
        Code.CLEAN_EXPIRED_CONSUMEQUEUE,
        Code.CLEAN_UNUSED_TOPIC,
        Code.DELETE_EXPIRED_COMMITLOG,
        Code.GET_ALL_DELAY_OFFSET,
    ),
}

# The response waits until topics.json and subscriptionGroup.json contain the change; if they cannot
# be written, the change is rolled back and the response is an error. A repeated request that
# changes nothing waits too, because the write of the first one may still be running.
PERSISTED_FIRST: Final = frozenset(
    {
        Code.UPDATE_AND_CREATE_TOPIC,
        Code.UPDATE_AND_CREATE_TOPIC_LIST,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        Code.UPDATE_AND_GET_GROUP_FORBIDDEN,
    }
)


def _bind(context: BrokerContext, function: Callable[..., Any]) -> "Handler":
    def handle(connection: "Connection", request: RemotingCommand) -> Any:
        return function(context, connection, request)

    return handle


def _bind_lazily(context: BrokerContext, module: str, code: int) -> "Handler":
    found: Callable[..., Any] | None = None

    def handle(connection: "Connection", request: RemotingCommand) -> Any:
        nonlocal found
        if found is None:
            found = load_family(module)[code]
        answer = found(context, connection, request)
        if code in PERSISTED_FIRST and (context.topics.dirty or context.groups.dirty):
            return persisted_first(context, request, answer)
        return answer

    return handle


def load_family(module: str) -> dict[int, Callable[..., Any]]:
    """Import one processor module and return its handlers.

    A name without dots is a module of this package; a feature with a package has its full name.
    """
    path = module if "." in module else f"broker.server.processor.{module}"
    family: dict[int, Callable[..., Any]] = importlib.import_module(path).HANDLERS
    return family


def make_handlers(
    context: BrokerContext,
    pulls: PullMessageProcessor,
    sends: SendMessageProcessor | None = None,
) -> "dict[int, Handler]":
    """Return the handler of every request code this broker serves."""
    sends = sends or SendMessageProcessor(context)
    handlers = {**handlers_of(sends), **pull_handlers(pulls)}
    for family in (offset.HANDLERS, query.HANDLERS):
        for code, function in family.items():
            handlers[code] = _bind(context, function)
    for module, codes in LAZY.items():
        for code in codes:
            handlers[code] = _bind_lazily(context, module, code)
    static = StaticRequests(context.mappings, dict(handlers))
    handlers.update({code: static.wrap(code) for code in SERVED})
    return handlers
