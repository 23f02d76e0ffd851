"""Java's changes of static topics: updateStaticTopic, remappingStaticTopic."""

import json
import tempfile
from pathlib import Path

from broker.common.java import INT32_MAX
from mqadmin.admin.result import Plan
from mqadmin.admin.topics.mappings import Mappings
from mqadmin.admin.topics.remapping import apply_remapping, plan_remapping
from mqadmin.admin.topics.static import StaticTopics
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command


@java_command("updateStaticTopic", changes=True)
def update_static_topic(call: JavaCall) -> None:
    """Create a static topic, or add global queues to one.

    **Source:** RocketMQ ``UpdateStaticTopicSubCommand``, which accepts -mf and -fr without effect.
    """
    _refuse_files(call)
    library = StaticTopics(call.admin)
    topic = call.text("t")
    before = library.mappings(topic)
    plan = library.plan(
        topic,
        call.whole("qn", lowest=1, highest=INT32_MAX),
        now_ms=call.now_ms(),
        brokers=_words(call.get("b")),
        clusters=_words(call.get("c")),
    )
    call.scope(plan)
    old = _write(f"{topic}-{call.now_ms()}.before", _state(before))
    call.line(f"The old mapping data is written to file {old}")
    call.applied(library.apply(plan))
    new = _write(f"{topic}-{call.now_ms()}.after", _planned(plan))
    call.line(f"The new mapping data is written to file {new}")


@java_command("remappingStaticTopic", changes=True)
def remapping_static_topic(call: JavaCall) -> None:
    """Move the queues of a static topic to the named brokers; both files are labelled as in Java.

    **Source:** RocketMQ ``RemappingStaticTopicSubCommand``.
    """
    _refuse_files(call)
    topic = call.text("t")
    found = plan_remapping(
        call.admin,
        topic,
        now_ms=call.now_ms(),
        brokers=_words(call.get("b")),
        clusters=_words(call.get("c")),
    )
    call.scope(found.plan)
    old = _write(f"{topic}-{call.now_ms()}.before", _state(found.before))
    call.line(f"The old mapping data is written to file {old}")
    call.applied(apply_remapping(call.admin, found))
    new = _write(f"{topic}-{call.now_ms()}.after", _state(found.after))
    call.line(f"The old mapping data is written to file {new}")


def _refuse_files(call: JavaCall) -> None:
    for option in ("mf", "fr"):
        if call.get(option) is not None:
            raise call.fault(option, "has no effect in the Java tool and is refused")


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _state(mappings: Mappings) -> object:
    return {name: one.to_wire() for name, one in mappings.items()}


def _planned(plan: Plan) -> object:
    return {change.target: dict(change.after or {}) for change in plan.changes}


def _write(name: str, value: object) -> str:
    path = Path(tempfile.gettempdir()) / name
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    return str(path)
