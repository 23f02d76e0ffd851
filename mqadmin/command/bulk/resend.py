"""``mqadmin msg resend``."""

from typing import Annotated

from mqadmin.admin.dlq import resend as library
from mqadmin.command.execution.found import body_view, emit_found
from mqadmin.command.execution.online import message_queries
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Argument, Option
from mqadmin.command.framework.values import topic_name
from mqadmin.command.message import NOUN
from mqadmin.output.view import View

MSG_RESEND = View("msg.resend", single=True)


@NOUN.verb(
    "resend",
    view=MSG_RESEND,
    changes=True,
    examples=[
        "mqadmin msg resend 7F00000100002A9F0000000000000000 --yes",
        "mqadmin msg resend 7F00000126AD18B4AAC2799D5BAB0000 --topic orders --to orders-repaired",
    ],
)
def resend(
    session: Session,
    message_id: Annotated[str, Argument("ID", help="An offsetMsgId, or a uniqKey with --topic.")],
    topic: Annotated[
        str | None,
        Option("--topic", "-t", metavar="TOPIC", help="Topic of the message.", complete="topic"),
    ] = None,
    to: Annotated[
        str | None,
        Option(
            "--to",
            metavar="TOPIC",
            help="Topic to send it to; default: the topic it was first sent to.",
            parse=topic_name,
            complete="topic",
        ),
    ] = None,
) -> None:
    """Send one stored message again, with its body, flag, keys, tags and own properties.

    A dead letter and a message of a retry topic are sent to their original topic. The stored
    message is kept. 'mqadmin dlq replay' sends many dead letters, each of them once.
    """
    session.require_consent()
    found = message_queries(session.admin).query_id(
        message_id, topic=topic, body=body_view("base64", raw=False)
    )
    if found.kind != "found":
        emit_found(session, MSG_RESEND, found)
        return
    admin = library.ResendAdmin(session.admin)
    plan = admin.plan(found.items[0], to=to)
    session.announce(plan.addresses)
    if session.dry_run:
        session.emit_one(MSG_RESEND, plan.record)
        session.end_dry_run()
        return
    if not session.consent(f"send message {message_id} to topic {plan.record.topic} again?"):
        return
    session.emit_one(MSG_RESEND, admin.send(plan))
