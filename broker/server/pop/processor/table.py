"""The pop service of a broker, and the handlers of pop requests by request code."""

from typing import TYPE_CHECKING

from broker.remoting.protocol.codes import RequestCode as Code
from broker.server.context import BrokerContext
from broker.server.pop.assignment.route_lookup import RouteLookup
from broker.server.pop.parts import PopParts, PopTimer
from broker.server.pop.processor.ack import AckMessageProcessor
from broker.server.pop.processor.assignment import AssignmentProcessor
from broker.server.pop.processor.notification import NotificationProcessor
from broker.server.pop.processor.pop import PopMessageProcessor
from broker.server.pop.service import PopService

if TYPE_CHECKING:
    from broker.remoting.server import Handler


def make_service(context: BrokerContext, timer: PopTimer) -> PopService:
    """Return the pop service of a broker."""
    parts = PopParts(
        context.store,
        context.clock,
        lambda: context.config,
        context.topics,
        context.groups,
        context.offsets,
        context.stats,
        lambda: context.store_host,
        timer,
    )
    return PopService(parts, context.memory)


def make_handlers(
    context: BrokerContext, pop: PopService, routes: RouteLookup
) -> "dict[int, Handler]":
    """Return the handlers of this package, bound to one broker."""
    pops = PopMessageProcessor(context, pop)
    acks = AckMessageProcessor(context, pop)
    notifications = NotificationProcessor(context, pop)
    assignments = AssignmentProcessor(context, pop, routes)
    return {
        Code.POP_MESSAGE: pops.pop,
        Code.ACK_MESSAGE: acks.ack,
        Code.BATCH_ACK_MESSAGE: acks.batch_ack,
        Code.CHANGE_MESSAGE_INVISIBLETIME: acks.change_invisible_time,
        Code.NOTIFICATION: notifications.notification,
        Code.POLLING_INFO: notifications.polling_info,
        Code.PEEK_MESSAGE: notifications.peek,
        Code.QUERY_ASSIGNMENT: assignments.query,
        Code.SET_MESSAGE_REQUEST_MODE: assignments.set_mode,
        Code.GET_ALL_MESSAGE_REQUEST_MODE: assignments.all_modes,
    }
