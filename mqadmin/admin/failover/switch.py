"""Switch: run a plan step by step, and undo the fence if the slave does not become level.

Every step may be repeated: a switch that was interrupted after any of them is planned and run
again, and continues in the same epoch.
"""

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

import msgspec

from broker.errors import ClientError, ConnectError, RequestTimeoutError, RocketMQError
from broker.remoting.protocol.body.role import BrokerRoleInfo
from mqadmin.admin.failover.plan import SwitchPlan, SwitchStep, plan_demotion, plan_promotion
from mqadmin.admin.failover.roles import Member, RoleClient
from mqadmin.admin.session import AdminSession

POLL_S: Final = 0.05
START_S: Final = 30.0

Report = Callable[[str], None]


class SwitchResult(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a run with their status, and sentences about the outcome.

    ``interrupted_ms``: time from the fence of the old master until the new one accepted writes;
    None without one of them. ``error``: why the switch stopped; None when it is complete.
    """

    steps: Sequence[SwitchStep]
    notes: Sequence[str] = ()
    interrupted_ms: int | None = None
    error: RocketMQError | None = None


class FailoverAdmin:
    """Plan and run role changes. ``wait_s`` bounds the wait until the slave is level."""

    def __init__(
        self,
        admin: AdminSession,
        *,
        wait_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.client = RoleClient(admin)
        self._wait_s = wait_s
        self._clock = clock
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()

    # ---- plans

    def plan_promote(self, broker: str, *, take_over: bool = False) -> SwitchPlan:
        """Plan that ``broker`` becomes the master: an address, or a name (most advanced slave)."""
        name, address = self._named(broker)
        return plan_promotion(name, self._members(name, address), address, take_over=take_over)

    def plan_demote(self, broker: str) -> SwitchPlan:
        """Plan that ``broker`` becomes a slave: a fenced master, or a master with a slave."""
        name, address = self._named(broker)
        members = self._members(name, address)
        infos = [member.info for member in members if member.info is not None]
        masters = [info for info in infos if info.role != "SLAVE"]
        if address:
            masters = [info for info in masters if info.address == address]
        if not masters:
            raise ClientError(
                f"{broker}: no master answers there", "mqadmin cluster list shows the brokers"
            )
        fenced = [info for info in masters if info.fenced_reason]
        others = [info for info in infos if info.role != "SLAVE" and not info.fenced_reason]
        if fenced and others:
            return plan_demotion(name, infos, fenced[0])
        return plan_promotion(name, members, "")

    def _members(self, name: str, address: str) -> list[Member]:
        return self.client.members(name, address)

    def _named(self, broker: str) -> tuple[str, str]:
        """Return the broker name and the address, "" if a name was given."""
        if ":" in broker:
            return self.client.role_of(broker).broker_name, broker
        if not self.client.registered(broker):
            raise ClientError(
                f"no broker is named {broker}", "mqadmin cluster list shows names and addresses"
            )
        return broker, ""

    # ---- running

    def run(self, plan: SwitchPlan, report: Report = lambda text: None) -> SwitchResult:
        """Run a plan; never raises for a failed step: the result names it."""
        run = _Run(plan, report, self._clock)
        try:
            if plan.kind == "demote":
                self._demote(run)
            elif plan.kind != "none":
                self._fence(run)
                if plan.kind == "planned":
                    self._level(run)
                self._promote(run)
                if plan.kind == "planned":
                    self._demote(run)
        except RocketMQError as error:
            run.fail(error)
            if plan.kind == "planned" and not run.promoted and run.fenced:
                self._cancel(run)
        return run.result()

    def _fence(self, run: "_Run") -> None:
        plan = run.plan
        for info in (plan.master, plan.target, *plan.others):
            if info is None:
                continue
            run.begin("fence", info)
            if info is plan.master:
                run.fenced_at = self._clock()
            self.client.change(info.address, "fence", epoch=plan.epoch, target=plan.target.address)
            run.fenced = True
            run.done()

    def _level(self, run: "_Run") -> None:
        """Wait until the target has the fenced master's whole log, then copy its tables."""
        plan = run.plan
        assert plan.master is not None
        run.begin("wait", plan.target)
        run.expected = self.client.role_of(plan.master.address).max_offset
        limit = self._clock() + self._wait_s
        while True:
            info = self.client.role_of(plan.target.address)
            if info.max_offset >= run.expected:
                break
            if self._clock() >= limit:
                raise ClientError(
                    f"{plan.target.address} is {run.expected - info.max_offset} bytes behind after"
                    f" {self._wait_s:g} s",
                    "try again when it has caught up (mqadmin broker ha), or give --wait",
                )
            self._sleep(POLL_S)
        run.done()
        run.begin("synchronize", plan.target)
        self.client.change(plan.target.address, "synchronize")
        run.done()

    def _promote(self, run: "_Run") -> None:
        plan = run.plan
        run.begin("promote", plan.target)
        expected = run.expected if plan.kind == "planned" else plan.target.max_offset
        properties = plan.master.replication_properties if plan.master is not None else None
        self.client.change(
            plan.target.address,
            "promote",
            properties,
            epoch=plan.epoch,
            expected_offset=expected,
        )
        run.promoted = True
        self._await(
            plan.target.address,
            lambda info: info.writable and info.role != "SLAVE",
            "does not accept writes",
        )
        run.serving_at = self._clock()
        run.done()

    def _demote(self, run: "_Run") -> None:
        plan, old = run.plan, run.plan.master
        assert old is not None
        run.begin("demote", old)
        self.client.change(old.address, "demote", epoch=plan.epoch, broker_id=plan.demoted_id)
        info = self._await(
            old.address,
            lambda info: info.role == "SLAVE" and (info.connected or info.diverged_at >= 0),
            "does not follow the new master",
        )
        run.done()
        if info.diverged_at >= 0:
            run.notes.append(
                f"{old.address}: its log differs from the new master's from physical offset"
                f" {info.diverged_at} to its end at {info.max_offset}: stop it, then run mqadmin"
                f" store repair STORE --diverged-at {info.diverged_at} --in-place"
            )

    def _await(
        self, address: str, reached: Callable[[BrokerRoleInfo], bool], problem: str
    ) -> BrokerRoleInfo:
        """Poll until a broker that starts in its new role has reached a state."""
        limit = self._clock() + START_S
        info = None
        while self._clock() < limit:
            try:
                info = self.client.alive(address)
            except RocketMQError:
                info = None  # it has just closed its connections
            if info is not None and not info.changing and reached(info):
                return info
            self._sleep(POLL_S)
        reason = (info.problem or info.fenced_reason) if info is not None else "no answer"
        raise RequestTimeoutError(
            f"{address} {problem} after {START_S:g} s: {reason}",
            "see its log, then run this command again",
        )

    def _cancel(self, run: "_Run") -> None:
        """Let the old master accept writes again; nothing was promoted."""
        plan = run.plan
        assert plan.master is not None
        epoch = plan.epoch + 1
        try:
            for info in (plan.master, plan.target, *plan.others):
                try:
                    self.client.change(
                        info.address, "fence", epoch=epoch, target=plan.master.address
                    )
                except (ConnectError, RequestTimeoutError):
                    continue  # it was reachable before: it may be the cause of the failure
            self.client.change(plan.master.address, "promote", epoch=epoch)
            run.notes.append(f"the switch was undone: {plan.master.address} accepts writes again")
        except RocketMQError as error:
            run.notes.append(
                f"{plan.master.address} still refuses writes ({error.message}): run mqadmin broker"
                f" promote {plan.master.address}, or this command again"
            )


class _Run:
    """The progress of one run."""

    def __init__(self, plan: SwitchPlan, report: Report, clock: Callable[[], float]) -> None:
        self.plan = plan
        self.expected = 0
        self.fenced = False
        self.promoted = False
        self.fenced_at: float | None = None
        self.serving_at: float | None = None
        self.notes: list[str] = []
        self._report = report
        self._clock = clock
        self._statuses: dict[int, str] = {}
        self._current: SwitchStep | None = None
        self._error: RocketMQError | None = None

    def begin(self, action: str, info: BrokerRoleInfo) -> None:
        """Start the step of the plan with this action on this broker."""
        self._current = next(
            step
            for step in self.plan.steps
            if step.action == action and step.address == info.address
        )
        self._report(f"{self._current.address}: {action}: {self._current.detail}")

    def done(self) -> None:
        """End the current step."""
        assert self._current is not None
        self._statuses[self._current.step] = "done"

    def fail(self, error: RocketMQError) -> None:
        """End the run at the current step."""
        self._error = error
        if self._current is not None:
            self._statuses[self._current.step] = "failed"

    def result(self) -> SwitchResult:
        """Return the steps with their status."""
        interrupted = None
        if self.fenced_at is not None and self.serving_at is not None:
            interrupted = int((self.serving_at - self.fenced_at) * 1000)
        return SwitchResult(
            steps=[
                msgspec.structs.replace(step, status=self._statuses.get(step.step, "planned"))
                for step in self.plan.steps
            ],
            notes=self.notes,
            interrupted_ms=interrupted,
            error=self._error,
        )
