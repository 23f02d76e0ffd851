"""Errors as records: kind, codes, address and the next step."""

import pytest

from broker.errors import ClientError, ConnectError
from mqadmin.admin.failure import describe, hint_for, refusal


def test_a_refusal_reports_request_broker_and_response() -> None:
    error = refusal("10.0.0.1:10911", 17, 16, "the broker's topic\nat com.foo.Bar")
    assert str(error) == (
        "UPDATE_AND_CREATE_TOPIC (10.0.0.1:10911): NO_PERMISSION (16): the broker's topic …"
    )
    record = describe(error, target="broker-a")
    assert (record.kind, record.address) == ("refused", "10.0.0.1:10911")
    assert (record.request_code, record.response_code, record.target) == (17, 16, "broker-a")
    assert record.hint


def test_a_refusal_without_remark() -> None:
    assert "no remark" in str(refusal("h:1", 17, 1, None))


def test_absent_is_none_not_minus_one() -> None:
    record = describe(ConnectError("x"))
    assert (record.address, record.request_code, record.response_code) == (None, None, None)
    assert describe(ClientError("x"), address="h:1").address == "h:1"


@pytest.mark.parametrize(
    ("request_code", "response_code", "remark", "word"),
    [
        (105, 17, "", "topic list"),
        (10, 17, "", "topic create"),
        (11, 26, "", "group create"),
        (28, 3, "", "cluster list"),
        (17, 16, "AuthorizationException", "--access-key"),
        (203, 206, "", "consumer lag"),
    ],
)
def test_hints_name_the_next_command(request_code, response_code, remark, word) -> None:
    assert word in hint_for(request_code, response_code, remark)


def test_no_hint_is_better_than_a_wrong_one() -> None:
    assert hint_for(17, 1) == ""


def test_a_refused_request_names_the_setting_that_admits_it():
    error = refusal("h:1", 17, 16, "reconfigures and is answered to loopback peers only; more")
    assert "on that host" in error.hint
