"""Log lines about the findings of a start."""

from broker.server.load_report import report_recovery
from broker.store.results import FoundDamage, RecoveryReport


def test_findings_of_recovery_are_logged(caplog) -> None:
    caplog.set_level("INFO")
    report_recovery(RecoveryReport())
    assert caplog.records == []
    damage = FoundDamage(
        path="commitlog/0", physical_offset=5, length=7, reason="torn", action="cut"
    )
    report_recovery(
        RecoveryReport(
            clean=False,
            scanned_bytes=99,
            damaged_regions=[damage],
            removed_files=["index/1"],
            notes=["sizes differ"],
        )
    )
    text = "\n".join(record.getMessage() for record in caplog.records)
    for part in ("not stopped cleanly", "99 bytes", "commitlog/0", "torn", "index/1"):
        assert part in text
    assert "sizes differ" in text
