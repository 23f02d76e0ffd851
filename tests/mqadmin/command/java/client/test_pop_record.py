"""exportPopRecord: a dry run is named truthfully, and the broker decides about the request."""

from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def test_a_dry_run_sends_no_request(java: Run, embedded: Any) -> None:
    done = java("exportPopRecord -c DefaultCluster -d true")
    assert done.out == (
        f"Export broker records, brokerName=broker-a, brokerAddr={embedded.address}, dryRun=true\n"
    )


def test_a_broker_without_the_request_refuses_it(java: Run) -> None:
    done = java("exportPopRecord -b $B")
    assert (done.status, done.out) == (4, "")
    assert "POP_ROLLBACK" in done.err


def test_the_inverted_value_of_java_is_refused(java: Run) -> None:
    assert java("exportPopRecord -b $B -d false").status == 2
    assert java("exportPopRecord").status == 2
