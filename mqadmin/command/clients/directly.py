"""``mqadmin msg consume-directly``."""

from typing import Annotated

from mqadmin.admin.clients import directly as library
from mqadmin.command.execution.found import emit_found
from mqadmin.command.execution.online import message_queries
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO
from mqadmin.command.framework.declare import Argument, Option
from mqadmin.command.message import NOUN
from mqadmin.output.view import View

MSG_CONSUME_DIRECTLY = View("msg.consume-directly", single=True)


@NOUN.verb(
    "consume-directly",
    view=MSG_CONSUME_DIRECTLY,
    changes=True,
    examples=[
        "mqadmin msg consume-directly 7F00000100002A9F0000000000000000 --group billing --yes",
        "mqadmin msg consume-directly 7F000001… --topic orders -g billing --client 10.0.0.1@4711",
    ],
)
def consume_directly(
    session: Session,
    message_id: Annotated[str, Argument("ID", help="An offsetMsgId, or a uniqKey with --topic.")],
    group: Annotated[
        str,
        Option("--group", "-g", metavar="GROUP", help="Group that processes it.", complete="group"),
    ],
    topic: Annotated[
        str | None,
        Option("--topic", "-t", metavar="TOPIC", help="Topic of the message.", complete="topic"),
    ] = None,
    client: Annotated[
        str | None,
        Option("--client", metavar="ID", help="Client that processes it; default: the only one."),
    ] = None,
) -> None:
    """Let a connected consumer process one message now and show the result of its listener.

    No offset is committed and a failure is not retried. Status 1 unless the result is CR_SUCCESS.
    """
    session.require_consent()
    found = message_queries(session.admin).query_id(message_id, topic=topic)
    if found.kind != "found":
        emit_found(session, MSG_CONSUME_DIRECTLY, found)
        return
    admin = library.DirectAdmin(session.admin)
    message = found.items[0]
    address, plan = admin.plan(message, group, client_id=client)
    session.announce([address])
    if session.dry_run:
        session.emit_one(MSG_CONSUME_DIRECTLY, plan)
        session.end_dry_run()
        return
    if not session.consent(f"let {plan.client_id} process {plan.offset_msg_id}?"):
        return
    result = admin.consume(message, group, client_id=plan.client_id)
    session.emit_one(MSG_CONSUME_DIRECTLY, result)
    if result.consume_result != library.SUCCESS:
        session.report(
            NO, "client", f"{plan.client_id} did not consume it: {result.consume_result}"
        )
