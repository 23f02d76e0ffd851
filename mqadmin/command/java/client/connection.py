"""Java's queries of connected clients: producerConnection, consumerConnection, consumerStatus."""

import os
from collections.abc import Sequence

from broker.common.clock import SystemClock
from mqadmin.admin.clients.producers import ProducerAdmin
from mqadmin.admin.clients.running import (
    RunningAdmin,
    RunningRecord,
    blocked_queues,
    same_subscription,
)
from mqadmin.admin.connections import consumer_connections
from mqadmin.command.execution.failure import NoResults
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.client.running_text import running_text
from mqadmin.command.java.declare import java_command

PRODUCER_ROW = "%04d  %-32s %-22s %-8s %s"
CONSUMER_ROW = "%-36s %-22s %-10s %s"
SUBSCRIPTION_ROW = "%-20s %s"
STATUS_ROW = "%-10s %-40s %-20s %s"


def offline(group: str) -> NoResults:
    """Build the error for a group without connected clients."""
    return NoResults(
        f"no client of group {group} is connected",
        f"mqadmin consumerProgress -g {group} shows its committed offsets",
    )


@java_command("producerConnection")
def producer_connection(call: JavaCall) -> None:
    """Print the clients of a producer group on every broker, numbered.

    **Source:** RocketMQ ``ProducerConnectionSubCommand``, which asks one broker of the topic.
    """
    found = ProducerAdmin(call.admin).connections(call.text("g"))
    if not found.connections and not found.errors:
        raise NoResults(f"no client of producer group {call.text('g')} is connected")
    for number, one in enumerate(found.connections, 1):
        call.line(
            PRODUCER_ROW % (number, one.client_id, one.client_addr, one.language, one.version)
        )
    call.errors(found.errors, some_worked=bool(found.connections))


@java_command("consumerConnection")
def consumer_connection(call: JavaCall) -> None:
    """Print the clients and subscriptions of a group.

    **Source:** RocketMQ ``ConsumerConnectionSubCommand``, which asks one broker.
    """
    group, broker = call.text("g"), _broker_name(call)
    found = consumer_connections(call.admin, group)
    clients = [one for one in found.connections if broker is None or broker in one.brokers]
    if not clients and not found.errors:
        raise offline(group)
    call.line(CONSUMER_ROW % ("#ClientId", "#ClientAddr", "#Language", "#Version"))
    for one in clients:
        call.line(CONSUMER_ROW % (one.client_id, one.client_addr, one.language, one.version))
    call.line()
    call.line("Below is subscription:")
    call.line(SUBSCRIPTION_ROW % ("#Topic", "#SubExpression"))
    for subscription in found.subscriptions:
        call.line(SUBSCRIPTION_ROW % (subscription.topic, subscription.sub_string))
    call.line()
    call.line(f"ConsumeType: {found.consume_type}")
    call.line(f"MessageModel: {found.message_model}")
    call.line(f"ConsumeFromWhere: {found.consume_from_where}")
    call.errors(found.errors, some_worked=bool(clients))


@java_command("consumerStatus")
def consumer_status(call: JavaCall) -> None:
    """Print a row per client and verdicts, or with -i the running information of one client.

    The running information of each client is written to a file, as Java does.

    **Source:** RocketMQ ``ConsumerStatusSubCommand``. Its verdict about the rebalance is constant
    and is left out.
    """
    group, client_id = call.text("g"), call.get("i")
    listing = RunningAdmin(call.admin).running(
        group, client_id=client_id, broker=_broker_name(call), jstack=call.flag("s")
    )
    if not listing.items and not listing.errors:
        raise offline(group)
    if client_id is not None:
        for item in listing.items:
            call.line(running_text(item))
    else:
        _print_clients(call, listing.items)
    call.errors(listing.errors, some_worked=bool(listing.items))


def _print_clients(call: JavaCall, records: Sequence[RunningRecord]) -> None:
    folder = str(call.now_ms())
    call.line(STATUS_ROW % ("#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile"))
    for number, record in enumerate(records, 1):
        path = os.path.join(folder, record.client_id.replace(os.sep, "_"))
        os.makedirs(folder, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(running_text(record))
        call.line(STATUS_ROW % (number, record.client_id, record.version, path))
    clock = SystemClock()
    call.line()
    if same_subscription(records, clock):
        call.line("\nSame subscription in the same group of consumer")
    else:
        call.line("\nWARN: Different subscription in the same group of consumer!!!")
    for record in records:
        for sentence in blocked_queues(record, clock):
            call.line(sentence)


def _broker_name(call: JavaCall) -> str | None:
    """Return the name of the broker that -b names by its address."""
    address = call.get("b")
    return None if address is None else call.admin.topology.named(address)[0].label
