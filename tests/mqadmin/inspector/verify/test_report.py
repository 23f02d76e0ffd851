"""Findings: collected, bounded per kind, counted by severity; every kind has meaning and advice."""

import pytest

from mqadmin.inspector.damage import ERROR, KINDS, LOG_KINDS, NOTICE, WARNING, found
from mqadmin.inspector.verify.report import MAX_PER_KIND, Findings


def test_findings_keep_their_order_and_mark_their_queues() -> None:
    findings = Findings()
    findings.add("unit", "/s/a", "one", physical_offset=20, length=20, queue=("T", 1))
    findings.add("state", "/s/abort", "two", severity=WARNING)
    assert [(row.kind, row.severity, row.path, row.detail) for row in findings.rows] == [
        ("unit", ERROR, "/s/a", "one"),
        ("state", WARNING, "/s/abort", "two"),
    ]
    assert findings.broken_queues == {("T", 1)}
    assert [row.suggestion for row in findings.rows] == [
        KINDS["unit"].advice,
        KINDS["state"].advice,
    ]


def test_filler_units_of_a_repair_do_not_mark_their_queue() -> None:
    findings = Findings()
    findings.add("bridge", "/s/a", "x", severity=NOTICE, queue=("T", 1))
    assert findings.broken_queues == set()


def test_further_findings_of_a_kind_are_only_counted() -> None:
    findings = Findings()
    for number in range(MAX_PER_KIND + 5):
        findings.add("unit", "/s/a", str(number))
    findings.add("order", "/s/a", "x")
    assert len(findings.rows) == MAX_PER_KIND + 1
    assert findings.left_out == 5
    assert findings.counts == {"unit": MAX_PER_KIND + 5, "order": 1}
    assert findings.severities[ERROR] == MAX_PER_KIND + 6


@pytest.mark.parametrize(("severity", "damaged"), [(ERROR, True), (WARNING, True), (NOTICE, False)])
def test_only_errors_and_warnings_make_a_store_damaged(severity: str, damaged: bool) -> None:
    findings = Findings()
    assert not findings.damaged
    findings.add("stale", "/s/a", "x", severity=severity)
    assert findings.damaged is damaged


def test_a_finished_row_is_taken_unchanged() -> None:
    findings = Findings()
    row = found("magic", "/s/commitlog/0", "x", physical_offset=7)
    findings.take(row)
    assert findings.rows == [row]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_has_a_meaning_and_advice(kind: str) -> None:
    assert KINDS[kind].meaning.strip()
    assert KINDS[kind].advice.strip()


def test_the_kinds_of_the_log_are_kinds() -> None:
    assert set(LOG_KINDS) <= set(KINDS)


def test_findings_are_sorted_by_physical_offset_from_an_index_on() -> None:
    findings = Findings()
    for kind, offset in (("crc", 900), ("crc", 500), ("name", None), ("magic", 100)):
        findings.add(kind, "log", "detail", physical_offset=offset)
    findings.sort(1)
    order = [(row.kind, row.physical_offset) for row in findings.rows]
    assert order == [("crc", 900), ("magic", 100), ("crc", 500), ("name", None)]
