"""Applying the plan of a file: exactly that plan, or nothing when the state moved since."""

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from mqadmin.admin.group import GroupAdmin
from mqadmin.admin.metadata.library import MetadataAdmin
from mqadmin.admin.offset.library import OffsetAdmin
from mqadmin.admin.offset.reset import ResetPlan
from mqadmin.admin.plans.plan_file import PlanFile
from mqadmin.admin.plans.topics import BulkTopics
from mqadmin.admin.pop.modes import ModeAdmin
from mqadmin.admin.result import Outcome, Plan, Scope
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import TopicAdmin
from mqadmin.admin.topics.static_plans import STATIC, StaticTopicAdmin


class Library(Protocol):
    """The library of a noun whose plans can be applied."""

    def apply(self, plan: Plan) -> Outcome:
        """Apply a plan."""
        ...


LIBRARIES: Mapping[str, Callable[[AdminSession], Library]] = {
    "topic": TopicAdmin,
    "group": GroupAdmin,
    "consumer": ModeAdmin,
    "metadata": MetadataAdmin,
}


class PlanRunner:
    """Checks and applies plans of files."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def scope_difference(self, content: PlanFile, scope: Scope) -> str:
        """Return how the present scope differs from the plan's, "" if it does not.

        A plan names broker addresses: if another broker or cluster has one of them, the plan would
        change that cluster.
        """
        for address, name in sorted(content.brokers.items()):
            now = scope.brokers.get(address)
            if now != name:
                found = "not registered" if now in (None, address) else now
                return f"broker {name} ({address}) of the plan is {found} at {_list(scope.namesrv)}"
        if list(content.clusters) != list(scope.clusters):
            return f"cluster {_list(content.clusters)} of the plan is {_list(scope.clusters)}"
        return ""

    def apply_change(self, plan: Plan) -> Outcome:
        """Apply a plan of topics or groups; if the state of any target moved, none is changed."""
        library = LIBRARIES[plan.kind.partition(".")[0]]
        if plan.kind.startswith(STATIC):
            library = StaticTopicAdmin
        elif library is TopicAdmin and any(change.subject for change in plan.changes):
            library = BulkTopics
        return library(self._admin).apply(msgspec.structs.replace(plan, strict=True))

    def apply_offsets(self, plan: ResetPlan, *, undo_path: str | None = None) -> ResetPlan:
        """Apply a plan of offsets; if any offset moved, none is changed.

        The offsets of connected clients move all the time: such a plan holds as long as the group
        does not consume.
        """
        return OffsetAdmin(self._admin).apply_reset(plan, undo_path=undo_path, exact=True)


def _list(names: object) -> str:
    return ", ".join(map(str, names)) if isinstance(names, (list, tuple)) and names else "-"
