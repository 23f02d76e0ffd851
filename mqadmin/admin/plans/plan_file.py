"""The plan file: a planned change with the cluster it was made for.

A plan contains the state found and the requests as they will be sent. It is applied as it is, or
refused when the state moved since (:mod:`mqadmin.admin.plans.runner`).
"""

from collections.abc import Mapping, Sequence
from shlex import quote

import msgspec

from broker.common.clock import Clock, SystemClock
from broker.errors import ConfigError
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.offset.reset import ResetPlan
from mqadmin.admin.plans.json_file import load_json, save_new
from mqadmin.admin.result import Plan
from mqadmin.admin.session import AdminSession

PLAN_SCHEMA = "mqadmin.plan/1"

#: Maximum size of a plan file: 10,000 topics on 10 brokers are 40 MB.
FILE_LIMIT_BYTES = 256 * 1024 * 1024

#: The requests that a plan of a noun may contain: a file cannot make mqadmin send others.
ALLOWED_CODES: Mapping[str, frozenset[int]] = {
    "topic": frozenset(
        {
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
            RequestCode.DELETE_TOPIC_IN_BROKER,
            RequestCode.DELETE_TOPIC_IN_NAMESRV,
        }
    ),
    "group": frozenset(
        {RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, RequestCode.DELETE_SUBSCRIPTIONGROUP}
    ),
    "consumer": frozenset({RequestCode.SET_MESSAGE_REQUEST_MODE}),
    "metadata": frozenset(
        {
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            RequestCode.PUT_KV_CONFIG,
            RequestCode.AUTH_UPDATE_USER,
            RequestCode.AUTH_CREATE_ACL,
            RequestCode.AUTH_UPDATE_ACL,
            RequestCode.UPDATE_BROKER_CONFIG,
        }
    ),
}


class PlanFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A plan file: one of ``change`` and ``offsets``, and the scope that it was made for.

    ``brokers``: address → broker name. ``createdTimestamp`` in ms.
    """

    verb: str
    context: str
    namesrv: Sequence[str]
    clusters: Sequence[str]
    brokers: Mapping[str, str]
    created_timestamp: int
    change: Plan | None = None
    offsets: ResetPlan | None = None
    schema: str = PLAN_SCHEMA

    @property
    def addresses(self) -> list[str]:
        """The addresses of the brokers that the plan changes."""
        if self.offsets is not None:
            return [item.address for item in self.offsets.items]
        # Not the later steps: their addresses are name servers.
        return [one.address for one in self.change.changes if one.step <= 0] if self.change else []


def write_plan_file(
    admin: AdminSession,
    plan: Plan | ResetPlan,
    path: str,
    *,
    verb: str,
    context: str,
    clock: Clock | None = None,
) -> str:
    """Write a plan with its scope to a new file; return the path as a word of a shell."""
    change = plan if isinstance(plan, Plan) else None
    offsets = plan if isinstance(plan, ResetPlan) else None
    content = PlanFile(
        verb=verb,
        context=context,
        namesrv=(),
        clusters=(),
        brokers={},
        created_timestamp=(clock or SystemClock()).now_ms(),
        change=change,
        offsets=offsets,
    )
    scope = admin.scope(content.addresses)
    save_plan(
        path,
        msgspec.structs.replace(
            content, namesrv=scope.namesrv, clusters=scope.clusters, brokers=scope.brokers
        ),
    )
    return quote(path)


def save_plan(path: str, content: PlanFile) -> None:
    """Write a plan file that must not exist yet; ConfigError with the path otherwise."""
    save_new(path, content, "plan file")


def load_plan(path: str) -> PlanFile:
    """Read a plan file; ConfigError with the path when it cannot be used."""
    content = load_json(
        path,
        PlanFile,
        "plan file",
        limit_bytes=FILE_LIMIT_BYTES,
        hint="a change with --plan FILE writes it",
    )
    if content.schema != PLAN_SCHEMA:
        raise ConfigError(f"plan file {path}: schema {content.schema}, not {PLAN_SCHEMA}")
    if (content.change is None) == (content.offsets is None):
        raise ConfigError(f"plan file {path}: it needs change or offsets, one of them")
    if content.change is not None:
        _check_codes(path, content.change)
    return content


def _check_codes(path: str, plan: Plan) -> None:
    noun = plan.kind.partition(".")[0]
    allowed = ALLOWED_CODES.get(noun)
    if allowed is None:
        raise ConfigError(
            f"plan file {path}: {plan.kind!r:.80} is not a change that can be applied",
            f"plans of: {', '.join(sorted(ALLOWED_CODES))}",
        )
    for change in plan.changes:
        if change.request is not None and change.request.code not in allowed:
            raise ConfigError(
                f"plan file {path}: request {change.request.code} is not part of {plan.kind}"
            )
