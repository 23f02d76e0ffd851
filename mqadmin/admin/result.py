"""Results of calls: listings, plans, outcomes and the errors of single targets."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class TargetError(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why one target (a broker, a name server, a queue) failed.

    ``kind`` is one of ``unreachable``, ``timeout``, ``refused``, ``notPermitted``, ``protocol``,
    ``client``, ``moved``, ``differs``.
    """

    kind: str
    message: str
    hint: str = ""
    address: str | None = None
    request_code: int | None = None
    response_code: int | None = None
    path: str | None = None
    physical_offset: int | None = None
    target: str | None = None


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The scope of a change. ``brokers``: address → broker name, or the address if unknown."""

    namesrv: Sequence[str]
    clusters: Sequence[str]
    brokers: Mapping[str, str]


class Listing(msgspec.Struct, Generic[T], frozen=True, kw_only=True, rename="camel"):
    """Items found, and the targets that failed.

    ``truncated`` is true when a limit cut the items; ``notes`` are sentences for users.
    """

    items: Sequence[T]
    errors: Sequence[TargetError] = ()
    truncated: bool = False
    notes: Sequence[str] = ()


class Request(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One request of a plan, as it will be sent."""

    address: str
    code: int
    ext_fields: Mapping[str, str] = {}
    body: bytes = b""


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One step of a plan on one target.

    ``before`` and ``after`` are the relevant fields, with their wire names; None means that the
    object does not exist. ``step`` orders the plan: all changes of a step are sent together, the
    next step starts when they have responses. ``request`` None: the target needs no change.
    ``subject`` is the object of this change in a plan of several objects, else "".
    """

    target: str
    address: str
    action: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    step: int = 0
    note: str = ""
    request: Request | None = None
    subject: str = ""

    @property
    def unchanged(self) -> bool:
        """True when the target already has the requested state."""
        return self.request is None


class Plan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A planned change, per target; nothing has been changed yet.

    ``kind`` names the verb (``topic.create``), ``subject`` the object; ``errors`` are targets that
    could not be read and so are not part of the plan; ``warnings`` are sentences for users.
    A ``strict`` plan is applied only if no target moved; else the other targets are changed.
    """

    kind: str
    subject: str
    changes: Sequence[Change] = ()
    errors: Sequence[TargetError] = ()
    warnings: Sequence[str] = ()
    strict: bool = False

    @property
    def empty(self) -> bool:
        """True when no target needs a change."""
        return all(change.unchanged for change in self.changes)

    def target_name(self, change: Change) -> str:
        """Return the target of a change as shown: with its object if the plan has several."""
        return f"{change.subject} {change.target}" if change.subject else change.target

    def subject_of(self, change: Change) -> str:
        """Return the object that a change is about."""
        return change.subject or self.subject


class ChangeResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of one change.

    ``status`` is one of ``done`` (read back as planned), ``unchanged`` (no change needed),
    ``failed`` (the target refused or did not respond), ``skipped`` (an earlier step failed),
    ``moved`` (the state was no longer the plan's ``before``, nothing was sent),
    ``differs`` (sent, but the read-back is not the plan's ``after``, or failed).
    """

    target: str
    address: str
    action: str
    status: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    read_back: Mapping[str, Any] | None = None
    error: TargetError | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An applied plan: one result per change, and the errors of plan and execution."""

    kind: str
    subject: str
    items: Sequence[ChangeResult] = ()
    errors: Sequence[TargetError] = ()
    warnings: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """True when every target has the planned state."""
        return not self.errors and all(item.status in {"done", "unchanged"} for item in self.items)
