"""Applying plans: re-read the state, send step by step, read back, report each target.

A plan is a value: each change contains the state found (``before``), the state wanted (``after``)
and the request that leads there. A user may take a minute to confirm a plan, so every target is
read again first; a target whose state is no longer ``before`` is left unchanged (``moved``).
After the last step every target is read once more: a state other than ``after`` is ``differs``.

The read depends on the noun and is passed in: a function of the plan that returns one state, None
(does not exist) or error per change.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from broker.errors import ClientError, RocketMQError
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.rpc.caller import Caller, Reply
from mqadmin.admin.failure import describe
from mqadmin.admin.result import Change, ChangeResult, Outcome, Plan, Request, TargetError
from mqadmin.admin.topology import Target

C = TypeVar("C")

State = Mapping[str, Any] | None
ReadStates = Callable[[Plan], Sequence[State | RocketMQError]]
SendAll = Callable[[Caller, Sequence[tuple[str, RemotingCommand]]], Sequence[Reply | RocketMQError]]


def config_change(
    target: Target, before: State, after: Mapping[str, Any], request: Callable[[], Request]
) -> Change:
    """Return the change of one configuration; ``before`` is None if the target has none.

    Without a difference there is no request.
    """
    return Change(
        target=target.label,
        address=target.address,
        action="create" if before is None else "update",
        before=before,
        after=after,
        request=None if before == after else request(),
    )


def apply_plan(admin: Caller, plan: Plan, read: ReadStates, send: SendAll | None = None) -> Outcome:
    """Apply ``plan``; a target that fails does not raise, its result carries the error.

    ``send`` sends the requests of one step; by default all at once.
    """
    results: dict[int, ChangeResult] = {
        index: _result(change, "unchanged", read_back=change.before)
        for index, change in enumerate(plan.changes)
        if change.unchanged
    }
    if not plan.empty:
        _refuse_moved(plan, read(plan), results)
        if plan.strict and any(result.status in {"moved", "failed"} for result in results.values()):
            for index, change in enumerate(plan.changes):
                results.setdefault(index, _result(change, "skipped"))
        _send_steps(admin, plan, send or _send_all, results)
        _read_back(plan, read(plan), results)
    return Outcome(
        kind=plan.kind,
        subject=plan.subject,
        items=[results[index] for index in range(len(plan.changes))],
        errors=[
            *plan.errors,
            *(item.error for item in results.values() if item.error is not None),
        ],
        warnings=plan.warnings,
    )


def refusal_of_moved(plan: Plan, states: Sequence[State | RocketMQError]) -> Outcome | None:
    """Return the outcome of a plan that is not applied as a whole, None if no target moved.

    ``states`` are the present ones. A target that cannot be read counts like one that moved.
    """
    results: dict[int, ChangeResult] = {}
    _refuse_moved(plan, states, results)
    if not results:
        return None
    errors = [item.error for item in results.values() if item.error is not None]
    for index, change in enumerate(plan.changes):
        results.setdefault(index, _result(change, "skipped"))
    return Outcome(
        kind=plan.kind,
        subject=plan.subject,
        items=[results[index] for index in range(len(plan.changes))],
        errors=[*plan.errors, *errors],
        warnings=plan.warnings,
    )


def creation_plan(
    noun: str,
    name: str,
    found: Sequence[tuple[Target, C | None]],
    change: Callable[[Target, C | None], Change],
    *,
    errors: Sequence[TargetError],
    if_not_exists: bool,
) -> Plan:
    """Plan a new object on the targets that do not have it.

    ``found`` are the targets with the present configuration, None if there is no such object;
    ``change`` returns the change of one target. ClientError if a target has the object, unless
    ``if_not_exists``: then it is left unchanged, and a warning names its settings that differ.
    """
    existing = [target.label for target, config in found if config is not None]
    if existing and not if_not_exists:
        raise ClientError(
            f"{noun} {name} exists already on {', '.join(existing)}",
            f"mqadmin {noun} update changes it, --if-not-exists leaves it unchanged",
        )
    changes = [change(target, config) for target, config in found]
    warnings = [
        f"{noun} {name} exists on {target.label} and is left unchanged: {text}"
        for (target, config), kept in zip(found, changes, strict=True)
        if config is not None and (text := _unlike(kept.before, change(target, None).after))
    ]
    return Plan(
        kind=f"{noun}.create", subject=name, changes=changes, errors=errors, warnings=warnings
    )


def _unlike(present: State, wanted: State) -> str:
    """Return the settings of ``present`` that differ from ``wanted``; a password is in neither."""
    assert present is not None
    assert wanted is not None
    shared = {name: value for name, value in wanted.items() if name in present}
    return _difference(present, shared)


def _refuse_moved(
    plan: Plan, states: Sequence[State | RocketMQError], results: dict[int, ChangeResult]
) -> None:
    for index, change in enumerate(plan.changes):
        if index in results:
            continue
        now = states[index]
        if isinstance(now, RocketMQError):
            error = describe(now, address=change.address, target=change.target)
            results[index] = _result(change, "failed", error=error)
        elif not _agrees(now, change.before) and not _agrees(now, change.after):
            error = TargetError(
                kind="moved",
                message=f"{plan.subject_of(change)} ({change.target}): "
                "changed since the plan was made",
                hint="make the plan again and look at its before and after",
                address=change.address,
                target=change.target,
            )
            results[index] = _result(change, "moved", read_back=now, error=error)


def _send_all(
    admin: Caller, requests: Sequence[tuple[str, RemotingCommand]]
) -> Sequence[Reply | RocketMQError]:
    return admin.call_all(requests)


def _send_steps(admin: Caller, plan: Plan, send: SendAll, results: dict[int, ChangeResult]) -> None:
    """Send the open changes, step by step.

    A change is skipped when a change of an earlier step of the same object failed or moved.
    """
    for step in sorted({change.step for change in plan.changes}):
        indexes = [
            index
            for index, change in enumerate(plan.changes)
            if change.step == step and index not in results
        ]
        broken = {
            plan.subject_of(change)
            for index, change in enumerate(plan.changes)
            if change.step < step
            and index in results
            and results[index].status in {"failed", "moved"}
        }
        for index in [one for one in indexes if plan.subject_of(plan.changes[one]) in broken]:
            results[index] = _result(plan.changes[index], "skipped")
            indexes.remove(index)
        requests = []
        for index in indexes:
            wanted = plan.changes[index].request
            assert wanted is not None, "a change without a request has its result already"
            command = request(wanted.code, dict(wanted.ext_fields), wanted.body)
            requests.append((wanted.address, command))
        for index, answer in zip(indexes, send(admin, requests), strict=True):
            if isinstance(answer, RocketMQError):
                change = plan.changes[index]
                error = describe(answer, address=change.address, target=change.target)
                results[index] = _result(change, "failed", error=error)


def _read_back(
    plan: Plan, states: Sequence[State | RocketMQError], results: dict[int, ChangeResult]
) -> None:
    for index, change in enumerate(plan.changes):
        if index in results:
            continue
        now = states[index]
        if isinstance(now, RocketMQError):
            error = describe(now, address=change.address, target=change.target)
            results[index] = _result(change, "differs", error=error)
        elif _agrees(now, change.after):
            results[index] = _result(change, "done", read_back=now)
        else:
            error = TargetError(
                kind="differs",
                message=(
                    f"{plan.subject_of(change)} ({change.target}): the target accepted the "
                    f"change, but {_difference(now, change.after)}"
                ),
                hint="an old broker may ignore fields it does not know",
                address=change.address,
                target=change.target,
            )
            results[index] = _result(change, "differs", read_back=now, error=error)


def _agrees(now: State, wanted: State) -> bool:
    """True when every field of ``wanted`` has that value in ``now``; None agrees only with None."""
    if now is None or wanted is None:
        return now is wanted
    return all(now.get(name) == value for name, value in wanted.items())


def _difference(now: State, wanted: State) -> str:
    if now is None:
        return "it does not exist"
    if wanted is None:
        return "it still exists"
    return ", ".join(
        f"{name} is {now.get(name)!r} instead of {value!r}"
        for name, value in wanted.items()
        if now.get(name) != value
    )


def _result(
    change: Change,
    status: str,
    *,
    read_back: State = None,
    error: TargetError | None = None,
) -> ChangeResult:
    return ChangeResult(
        target=f"{change.subject} {change.target}" if change.subject else change.target,
        address=change.address,
        action=change.action,
        status=status,
        before=change.before,
        after=change.after,
        read_back=read_back,
        error=error,
    )
