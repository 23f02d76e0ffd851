"""Plans whose result cannot be read back: each request is sent once and its response counts."""

from collections.abc import Callable, Mapping
from typing import Any

from broker.errors import RocketMQError
from broker.remoting.protocol.command import request
from broker.remoting.rpc.caller import Reply
from mqadmin.admin.failure import describe
from mqadmin.admin.result import ChangeResult, Outcome, Plan
from mqadmin.admin.session import AdminSession

ReadReply = Callable[[Reply], Mapping[str, Any]]


def send_plan(admin: AdminSession, plan: Plan, read: ReadReply | None = None) -> Outcome:
    """Send the requests of ``plan`` at once; ``read`` turns a response into the read-back state.

    A target that fails does not affect the others, its result contains the error.
    """
    admin.renew()
    requests = []
    for change in plan.changes:
        assert change.request is not None, "each change of such a plan is one request"
        wanted = change.request
        requests.append(
            (wanted.address, request(wanted.code, dict(wanted.ext_fields), wanted.body))
        )
    items: list[ChangeResult] = []
    for change, answer in zip(plan.changes, admin.call_all(requests), strict=True):
        failed = isinstance(answer, RocketMQError)
        state: Mapping[str, Any] | None = None
        if isinstance(answer, Reply) and read is not None:
            state = read(answer)
        items.append(
            ChangeResult(
                target=change.target,
                address=change.address,
                action=change.action,
                status="failed" if failed else "done",
                before=change.before,
                after=change.after,
                read_back=state,
                error=describe(answer, address=change.address, target=change.target)
                if isinstance(answer, RocketMQError)
                else None,
            )
        )
    return Outcome(
        kind=plan.kind,
        subject=plan.subject,
        items=items,
        errors=[*plan.errors, *(item.error for item in items if item.error is not None)],
        warnings=plan.warnings,
    )
