"""Finding: one observation of an examination, and the order in which findings are shown."""

from collections.abc import Iterable

import msgspec

CRITICAL = "critical"
WARNING = "warning"
NOTICE = "notice"

_ORDER = (CRITICAL, WARNING, NOTICE)


class Finding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One finding about ``target`` (a broker, a name server, a setting, a group, a queue).

    ``severity``: ``critical`` (messages cannot be sent or consumed, or may be lost), ``warning``
    (will become so, or is very likely unintended), ``notice``. ``fix`` is the command or the
    action that removes the cause.
    """

    severity: str
    kind: str
    target: str
    message: str
    cause: str
    fix: str


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings by severity, then kind and target."""
    return sorted(findings, key=lambda one: (_ORDER.index(one.severity), one.kind, one.target))


def is_serious(finding: Finding) -> bool:
    """True for a finding that requires an action: critical or warning."""
    return finding.severity != NOTICE
