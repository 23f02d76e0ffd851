"""Java's sendMessage and checkMsgSendRT."""

from time import monotonic

from broker.common.java import INT32_MAX
from broker.errors import RocketMQError
from mqadmin.admin.failure import describe
from mqadmin.admin.message.send import Outgoing, send
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command

ROW = "%-32s  %-4s  %-20s    %s"

MAX_BODY_BYTES = 4 * 1024 * 1024


@java_command("sendMessage", changes=True)
def send_message(call: JavaCall) -> None:
    """Send one message. **Source:** RocketMQ ``SendMessageCommand``."""
    if call.truth("m", False):
        raise call.fault("m", "message trace is not supported")
    if call.get("b") is not None and call.get("i") is None:
        raise UsageFault("sendMessage: -b needs a queue: -i")
    keys = call.get("k")
    sent = send(
        call.admin,
        Outgoing(
            topic=call.text("t"),
            body=call.text("p").strip().encode("utf-8", "surrogateescape"),
            tags=call.get("c"),
            keys=(keys,) if keys else (),
            broker=call.get("b"),
            queue_id=call.number("i", highest=INT32_MAX),
        ),
    )
    call.line(ROW % ("#Broker Name", "#QID", "#Send Result", "#MsgId"))
    place = (sent.broker_name, sent.queue_id)
    call.line(ROW % (*place, sent.send_status, sent.uniq_key or sent.offset_msg_id))


@java_command("checkMsgSendRT", changes=True)
def check_send_time(call: JavaCall) -> None:
    """Send messages to a topic and print the time of each; the first is left out of the mean.

    **Source:** RocketMQ ``CheckMsgSendRTCommand``. A send that fails is a row with ``false`` and
    makes the status 5.
    """
    amount = call.whole("a", 100, lowest=1)
    size = call.whole("s", 128, lowest=1)
    if size > MAX_BODY_BYTES:
        raise call.fault("s", f"must be at most {MAX_BODY_BYTES}")
    outgoing = Outgoing(topic=call.text("t"), body=b"a" * size)
    times: list[int] = []
    errors = []
    call.line(ROW % ("#Broker Name", "#QID", "#Send Result", "#RT"))
    admin = call.admin.without_deadline()
    for number in range(amount):
        began = monotonic()
        place: tuple[object, object] = ("-", "-")
        try:
            sent = send(admin, outgoing)
            place = (sent.broker_name, sent.queue_id)
            result = "true"
        except RocketMQError as error:
            errors.append(describe(error))
            result = "false"
        passed_ms = int((monotonic() - began) * 1000)
        call.line(ROW % (*place, result, passed_ms))
        if number:
            times.append(passed_ms)
    admin.close()
    call.line(f"Avg RT: {sum(times) / len(times):.2f}" if times else "Avg RT: -")
    call.errors(errors, some_worked=len(errors) < amount)
