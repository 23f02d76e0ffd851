"""Order and severity of findings."""

from mqadmin.admin.doctor.finding import CRITICAL, NOTICE, WARNING, Finding, is_serious, ordered


def finding(severity: str, kind: str) -> Finding:
    return Finding(severity=severity, kind=kind, target="t", message="m", cause="c", fix="f")


def test_the_worst_findings_are_first_and_notices_require_no_action() -> None:
    given = [finding(NOTICE, "a"), finding(CRITICAL, "z"), finding(WARNING, "b")]
    found = ordered([*given, finding(CRITICAL, "y")])
    assert [(one.severity, one.kind) for one in found] == [
        (CRITICAL, "y"),
        (CRITICAL, "z"),
        (WARNING, "b"),
        (NOTICE, "a"),
    ]
    assert [is_serious(one) for one in found] == [True, True, True, False]
