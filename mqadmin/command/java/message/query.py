"""Java's queries of messages: by id, by key, by unique key, by offset."""

import codecs

from broker.common.java import INT32_MAX
from mqadmin.admin.clients.directly import DirectAdmin
from mqadmin.admin.dlq.resend import ResendAdmin
from mqadmin.admin.message.query import DEFAULT_MAX, MessageQueries
from mqadmin.admin.message.record import BodyView
from mqadmin.admin.message.result import QueryResult
from mqadmin.admin.tracing.track import MessageTracker
from mqadmin.command.execution.failure import UsageFault, target_report
from mqadmin.command.execution.found import KINDS
from mqadmin.command.execution.status import NO, PARTLY
from mqadmin.command.java.access.user import split_words
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command
from mqadmin.command.java.message.message_text import properties_text, stamp
from mqadmin.message_row import MessageRow, body_bytes
from mqadmin.output.errors import ErrorReport, emit_error

KEY_ROW = "%-50s %4s %40s"
FIELD_ROW = "%-20s %s"
TRACK_ROW = "MessageTrack [consumerGroup=%s, trackType=%s, exceptionDesc=%s]"

BASE64 = BodyView(encoding="base64")

FOUND = "found"


@java_command("queryMsgById")
def query_by_id(call: JavaCall) -> None:
    """Print messages by their ids, with -g and -d also pass each to a client, with -s resend it.

    Bodies are printed with -f and not written to files.

    **Source:** RocketMQ ``QueryMsgByIdSubCommand``.
    """
    _check_push(call)
    again = bool(call.truth("s", False))
    if call.get("u") is not None:
        raise call.fault("u", "unit names of producers are not supported")
    for text in split_words(call.text("i")):
        result = MessageQueries(call.admin).query_id(text, topic=call.get("t"), body=BASE64)
        if not _report(call, result):
            continue
        message = result.items[0]
        if again:
            _resend(call, message)
        elif call.get("g") is not None:
            _push(call, message)
        else:
            _print(call, message, offset_id=True)


@java_command("queryMsgByUniqueKey")
def query_by_unique_key(call: JavaCall) -> None:
    """Print the oldest message with a unique key, with -a all of them.

    **Source:** RocketMQ ``QueryMsgByUniqueKeySubCommand``.
    """
    _check_push(call)
    result = MessageQueries(call.admin).query_key(
        call.text("t"), call.text("i"), unique=True, body=BASE64
    )
    if not _report(call, result):
        return
    for message in result.items if call.flag("a") else result.items[:1]:
        if call.get("g") is not None:
            _push(call, message)
        else:
            _print(call, message, offset_id=False)


@java_command("queryMsgByOffset")
def query_by_offset(call: JavaCall) -> None:
    """Print the message at a queue offset. **Source:** RocketMQ ``QueryMsgByOffsetSubCommand``."""
    result = MessageQueries(call.admin).query_offset(
        call.text("t"),
        call.whole("i", highest=INT32_MAX),
        call.whole("o"),
        broker=call.text("b"),
        body=BASE64,
    )
    if _report(call, result):
        _print(call, result.items[0], offset_id=True)


@java_command("queryMsgByKey")
def query_by_key(call: JavaCall) -> None:
    """Print ids and offsets of messages by a business key.

    **Source:** RocketMQ ``QueryMsgByKeySubCommand``.
    """
    _check_cluster(call)
    result = MessageQueries(call.admin).query_key(
        call.text("t"),
        call.text("k"),
        begin_ms=call.whole("b"),
        end_ms=call.number("e"),
        max_items=call.whole("m", DEFAULT_MAX, lowest=1),
    )
    if not _report(call, result):
        return
    call.line(KEY_ROW % ("#Message ID", "#QID", "#Offset"))
    for item in result.items:
        place = (item.queue_id, item.queue_offset)
        call.line(KEY_ROW % (item.uniq_key or item.offset_msg_id, *place))
    if result.truncated:
        call.session.report(PARTLY, "truncated", result.detail, result.hint)


def _check_push(call: JavaCall) -> None:
    """Refuse one of -g and -d without the other."""
    _check_cluster(call)
    if (call.get("g") is None) != (call.get("d") is None):
        raise UsageFault(f"{call.name.name}: -g and -d name a client together")


def _check_cluster(call: JavaCall) -> None:
    if call.get("c") is not None:
        call.admin.topology.all(cluster=call.get("c"))  # an error for an unknown cluster


def _report(call: JavaCall, result: QueryResult) -> bool:
    """Report errors and the reason of an empty result; return whether there are messages."""
    if result.kind == FOUND:
        call.errors(result.errors, some_worked=True)
        return True
    reports = [target_report(error) for error in result.errors]
    if not reports:
        message = result.detail or f"no message: {result.kind}"
        reports = [ErrorReport(result.kind, message, result.hint)]
    for report in reports:
        emit_error(report, form=call.session.form)
    call.session.status = call.session.status or KINDS.get(result.kind, NO)
    return False


def _print(call: JavaCall, message: MessageRow, *, offset_id: bool) -> None:
    rows: list[tuple[str, object]] = []
    if offset_id:
        rows.append(("OffsetID:", message.offset_msg_id))
    rows += [
        ("Topic:", message.topic),
        ("Tags:", f"[{message.tags or 'null'}]"),
        ("Keys:", f"[{' '.join(message.keys) or 'null'}]"),
        ("Queue ID:", message.queue_id),
        ("Queue Offset:", message.queue_offset),
        ("CommitLog Offset:", message.physical_offset),
        ("Reconsume Times:", message.reconsume_times),
        ("Born Timestamp:", stamp(message.born_timestamp)),
        ("Store Timestamp:", stamp(message.store_timestamp)),
        ("Born Host:", message.born_host),
        ("Store Host:", message.store_host),
        ("System Flag:", message.sys_flag),
        ("Properties:", properties_text(message.properties)),
    ]
    charset = call.values.get("f")
    if charset is not None:
        body = body_bytes(message.body or "", message.body_encoding)
        rows.append(("Message Body:", body.decode(checked_charset(call, "f"), "replace")))
    for name, value in rows:
        call.line(FIELD_ROW % (name, value))
    call.line()
    call.line()
    listing = MessageTracker(call.admin).track(message)
    for one in listing.items:
        reason = one.detail if one.track_type == "UNKNOWN" else "null"
        call.line(TRACK_ROW % (one.group, one.track_type, reason))
    call.errors(listing.errors, some_worked=True)


def checked_charset(call: JavaCall, option: str, default: str = "UTF-8") -> str:
    """Return the charset of an option; UsageFault for an unknown one."""
    charset = call.get(option) or default
    try:
        codecs.lookup(charset)
    except LookupError:
        raise call.fault(option, f"{charset!r} is not a charset") from None
    return charset


def _push(call: JavaCall, message: MessageRow) -> None:
    result = DirectAdmin(call.admin).consume(message, call.text("g"), client_id=call.text("d"))
    call.line(
        "ConsumeMessageDirectlyResult ["
        f"order={_truth(result.order)}, autoCommit={_truth(result.auto_commit)}, "
        f"consumeResult={result.consume_result}, remark={result.remark or 'null'}, "
        f"spentTimeMills={result.spent_time_mills}]"
    )


def _truth(value: bool | None) -> str:
    return "true" if value else "false"


def _resend(call: JavaCall, message: MessageRow) -> None:
    resend = ResendAdmin(call.admin)
    plan = resend.plan(message, to=message.topic)
    call.session.announce(plan.addresses)
    call.line(f"prepare resend msg. originalMsgId={message.offset_msg_id}")
    sent = resend.send(plan)
    call.line(
        f"SendResult [sendStatus={sent.send_status}, msgId={sent.uniq_key}, "
        f"offsetMsgId={sent.offset_msg_id}, messageQueue=MessageQueue [topic={sent.topic}, "
        f"brokerName={sent.broker_name}, queueId={sent.queue_id}], queueOffset={sent.queue_offset}]"
    )
