"""``mqadmin topic allocate``."""

from typing import Annotated

from mqadmin.admin.topics.queries import AllocationRecord
from mqadmin.admin.topics.queries import allocate as allocate_queues
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import Topic
from mqadmin.command.framework.declare import Argument
from mqadmin.command.topic import NOUN
from mqadmin.output.view import View

ALLOCATE = View("topic.allocate", ("clientId", "brokerName", "queueId"))


@NOUN.verb("allocate", view=ALLOCATE, examples=["mqadmin topic allocate orders a@1 b@1 c@1"])
def allocate(
    session: Session,
    topic: Topic,
    clients: Annotated[list[str], Argument("CLIENT", help="Ids of the clients of a group.")],
) -> None:
    """Show which queues each client of a group would get with the average strategy.

    The library of clients sorts queues and client ids, so that all clients compute the same.
    """
    rows = [
        AllocationRecord(client_id=client, broker_name=queue.broker_name, queue_id=queue.queue_id)
        for client, queues in allocate_queues(session.admin, topic, clients).items()
        for queue in queues
    ]
    session.emit(ALLOCATE, rows, nothing=f"topic {topic} has no readable queue")
