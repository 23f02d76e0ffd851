"""SwitchPlan: who becomes the master, in which epoch, what is missing, and the steps."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from broker.errors import ClientError
from broker.remoting.protocol.body.role import BrokerRoleInfo
from mqadmin.admin.failover.roles import Member

Kind = Literal["planned", "unplanned", "cancel", "demote", "none"]


class SwitchStep(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One step of a switch on one broker; ``status`` is planned, done or failed."""

    step: int
    action: str
    broker_name: str
    address: str
    detail: str
    status: str = "planned"


class SwitchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A role change that nothing has been done for yet; offsets are physical.

    ``master`` is the broker that is the master now, None if none answers. ``missing_bytes`` are
    those known to be on another broker only: the target lacks them; None if nothing is known.
    """

    kind: Kind
    broker_name: str
    cluster_name: str
    epoch: int
    target: BrokerRoleInfo
    master: BrokerRoleInfo | None
    others: Sequence[BrokerRoleInfo]
    missing_bytes: int | None = None
    demoted_id: int = 0
    steps: Sequence[SwitchStep] = ()
    warnings: Sequence[str] = ()

    @property
    def addresses(self) -> list[str]:
        """The brokers that take part."""
        masters = [] if self.master is None else [self.master.address]
        return [self.target.address, *masters, *(one.address for one in self.others)]


def plan_promotion(
    name: str, members: Sequence[Member], wanted: str, *, take_over: bool = False
) -> SwitchPlan:
    """Plan that the broker at ``wanted`` ("": the most advanced slave) becomes the master.

    ClientError if that is impossible.
    """
    infos = [member.info for member in members if member.info is not None]
    if not infos:
        raise ClientError(
            f"no broker of {name} answers", "mqadmin cluster list shows the registered brokers"
        )
    masters = [info for info in infos if info.role != "SLAVE"]
    serving = [info for info in masters if not info.fenced_reason]
    if len(serving) > 1:
        places = ", ".join(info.address for info in serving)
        raise ClientError(
            f"{len(serving)} brokers of {name} are masters and accept writes: {places}",
            "stop all but the one to keep, then promote a slave or restart it",
        )
    target = _target(name, infos, wanted)
    newest = max(masters, key=lambda info: (info.epoch, not info.fenced_reason), default=None)
    if target.role != "SLAVE":
        return _keep_master(name, infos, target, serving)
    if newest is not None and newest.epoch > 0 and newest.epoch < target.epoch:
        newest = None  # an old master that has come back: it has no part in this switch
    epoch = _epoch(infos, target, take_over=take_over)
    others = [info for info in infos if info not in (target, newest)]
    if newest is None:
        return _unplanned(name, target, others, epoch)
    return _planned(name, target, newest, others, epoch)


def _target(name: str, infos: Sequence[BrokerRoleInfo], wanted: str) -> BrokerRoleInfo:
    if wanted:
        for info in infos:
            if info.address == wanted:
                return info
        raise ClientError(
            f"{wanted} is not a broker of {name} that answers",
            f"brokers that answer: {', '.join(info.address for info in infos)}",
        )
    slaves = [info for info in infos if info.role == "SLAVE"]
    if not slaves:
        raise ClientError(
            f"no slave of {name} answers: nobody can become the master",
            "mqadmin broker ha shows the replication",
        )
    # Of equal logs the lowest broker id: consumers read from slave 1 already.
    return max(slaves, key=lambda info: (info.max_offset, -info.broker_id))


def _epoch(infos: Sequence[BrokerRoleInfo], target: BrokerRoleInfo, *, take_over: bool) -> int:
    """Return the epoch of the switch: that of an interrupted one to the same target, or a new one.

    ClientError if another switch is under way.
    """
    newest = max(info.epoch for info in infos)
    promised = max(infos, key=lambda info: info.promised_epoch)
    if promised.promised_epoch > newest:
        if promised.promised_to == target.address:
            return promised.promised_epoch
        if not take_over:
            raise ClientError(
                f"another switch is under way: epoch {promised.promised_epoch} is promised to"
                f" {promised.promised_to}",
                f"finish it with mqadmin broker promote {promised.promised_to}, or replace it with"
                " --take-over",
            )
    return max(newest, promised.promised_epoch) + 1


def _planned(
    name: str,
    target: BrokerRoleInfo,
    master: BrokerRoleInfo,
    others: Sequence[BrokerRoleInfo],
    epoch: int,
) -> SwitchPlan:
    if target.diverged_at >= 0:
        raise ClientError(
            f"{target.address}: its log differs from the master's from physical offset"
            f" {target.diverged_at} on",
            "mqadmin store repair --diverged-at cuts it; then it follows the master",
        )
    if not target.connected:
        raise ClientError(
            f"{target.address} does not follow the master {master.address}: {target.problem}",
            "mqadmin broker ha shows the replication; wait until the slave is connected",
        )
    gap = max(0, master.max_offset - target.max_offset)
    steps = _Steps(name)
    for info in (master, target, *others):
        what = "refuse writes" if info is master else "promise"
        steps.add("fence", info, f"{what}: epoch {epoch} for {target.address}")
    steps.add("wait", target, f"until the log is level: {target.max_offset}, {gap} bytes to copy")
    steps.add("synchronize", target, "copy topics, groups and offsets from the master")
    steps.add("promote", target, f"brokerId {target.broker_id} -> 0, epoch {epoch}")
    steps.add("demote", master, f"brokerId 0 -> {target.broker_id}, follows {target.address}")
    return SwitchPlan(
        kind="planned",
        broker_name=name,
        cluster_name=target.cluster_name,
        epoch=epoch,
        target=target,
        master=master,
        others=others,
        missing_bytes=0,
        demoted_id=target.broker_id,
        steps=steps.made,
    )


def _unplanned(
    name: str, target: BrokerRoleInfo, others: Sequence[BrokerRoleInfo], epoch: int
) -> SwitchPlan:
    ends = {target.address: target.master_end_offset}
    ends |= {info.address: max(info.master_end_offset, info.max_offset) for info in others}
    known = max(ends.values())
    missing = max(0, known - target.max_offset) if known else None
    lost = (
        f"no master of {name} answers: what it stored after {target.max_offset} and did not copy"
        " is not on the new master; if it comes back it is fenced, and mqadmin store repair"
        " --diverged-at writes its extra records to a file"
    )
    warnings = [lost]
    if missing is None:
        warnings.append("the end of the master's log is not known: the loss cannot be counted")
    elif missing:
        warnings.append(
            f"{target.address} lacks at least {missing} bytes: its log ends at"
            f" {target.max_offset}, and the master's was seen to end at {known}"
        )
    for info in others:
        if info.role == "SLAVE" and info.max_offset > target.max_offset:
            warnings.append(
                f"{info.address} is more advanced: its log ends at {info.max_offset}; it will"
                f" diverge from {target.address}"
            )
    steps = _Steps(name)
    for info in (target, *others):
        steps.add("fence", info, f"promise: epoch {epoch} for {target.address}")
    steps.add(
        "promote",
        target,
        f"brokerId {target.broker_id} -> 0, epoch {epoch}, from offset {target.max_offset} on",
    )
    return SwitchPlan(
        kind="unplanned",
        broker_name=name,
        cluster_name=target.cluster_name,
        epoch=epoch,
        target=target,
        master=None,
        others=others,
        missing_bytes=missing,
        steps=steps.made,
        warnings=warnings,
    )


def _keep_master(
    name: str,
    infos: Sequence[BrokerRoleInfo],
    target: BrokerRoleInfo,
    serving: Sequence[BrokerRoleInfo],
) -> SwitchPlan:
    """The target is a master: demote those it has replaced, or cancel a switch away from it."""
    others = [info for info in infos if info is not target]
    steps = _Steps(name)
    if not target.fenced_reason:
        old = next((info for info in others if info.role != "SLAVE"), None)
        if old is not None:
            return plan_demotion(name, infos, old)
        return _made("none", target, None, others, target.epoch, steps)
    if serving or any(info.epoch > target.epoch for info in others):
        newer = (serving or others)[0]
        raise ClientError(
            f"{target.address} was replaced by {newer.address} (epoch {newer.epoch})",
            f"make it a slave with mqadmin broker demote {target.address}, wait until it is in"
            " sync, then promote it",
        )
    epoch = max(max(info.epoch, info.promised_epoch) for info in infos) + 1
    for info in (target, *others):
        steps.add("fence", info, f"promise: epoch {epoch} for {target.address}")
    steps.add("promote", target, f"accept writes again, epoch {epoch}")
    return _made("cancel", target, None, others, epoch, steps)


def plan_demotion(name: str, infos: Sequence[BrokerRoleInfo], old: BrokerRoleInfo) -> SwitchPlan:
    """Plan that a fenced master becomes a slave of the master that has replaced it.

    ClientError if no master has.
    """
    masters = [
        info for info in infos if info.role != "SLAVE" and not info.fenced_reason and info != old
    ]
    if not masters:
        raise ClientError(
            f"no other master of {name} accepts writes: {old.address} would have none to follow",
            "mqadmin broker promote makes a slave the master",
        )
    new = masters[0]
    used = {info.broker_id for info in infos if info is not old}
    free = next(number for number in range(1, len(used) + 2) if number not in used)
    steps = _Steps(name)
    steps.add("demote", old, f"brokerId {old.broker_id} -> {free}, follows {new.address}")
    others = [info for info in infos if info not in (old, new)]
    plan = _made("demote", new, old, others, new.epoch, steps)
    return msgspec.structs.replace(plan, demoted_id=free)


class _Steps:
    """Steps of one plan, numbered."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.made: list[SwitchStep] = []

    def add(self, action: str, info: BrokerRoleInfo, detail: str) -> None:
        self.made.append(
            SwitchStep(
                step=len(self.made) + 1,
                action=action,
                broker_name=self._name,
                address=info.address,
                detail=detail,
            )
        )


def _made(
    kind: Kind,
    target: BrokerRoleInfo,
    master: BrokerRoleInfo | None,
    others: Sequence[BrokerRoleInfo],
    epoch: int,
    steps: _Steps,
) -> SwitchPlan:
    return SwitchPlan(
        kind=kind,
        broker_name=target.broker_name,
        cluster_name=target.cluster_name,
        epoch=epoch,
        target=target,
        master=master,
        others=others,
        steps=steps.made,
    )
