"""Errors as records: kind, codes, address and the next step."""

import pytest

from broker.errors import ClientError, ConnectError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.failure import describe, having, hint_for, part_errors, refusal
from mqadmin.admin.topology import Target


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
        (3006, 16, "The source ip is invalid.", "10.0.0.0/8"),
        (3007, 16, "The actions can not be Any.", "acl create --help"),
        (3009, 16, "The subject is not exist.", "user list"),
        (3009, 16, "check signature failed.", "--access-key"),
    ],
)
def test_hints_name_the_next_command(request_code, response_code, remark, word) -> None:
    assert word in hint_for(request_code, response_code, remark)


def test_no_hint_is_better_than_a_wrong_one() -> None:
    assert hint_for(17, 1) == ""


def test_a_refused_request_names_the_setting_that_admits_it():
    error = refusal("h:1", 17, 16, "reconfigures and is answered to loopback peers only; more")
    assert "on that host" in error.hint


A, B = Target(address="h:1", broker_name="a"), Target(address="h:2", broker_name="b")


def test_results_and_errors_keep_the_order_of_their_targets() -> None:
    good, errors = part_errors([A, B, A], ["x", ConnectError("down", address="h:2"), None])
    assert good == [(A, "x"), (A, None)]
    assert [(error.target, error.address) for error in errors] == [(B.label, "h:2")]


def test_an_answer_for_each_target_is_required() -> None:
    """A result of another target would be reported under the wrong name."""
    with pytest.raises(ValueError, match="shorter"):
        part_errors([A, B], ["x"])


def test_an_object_is_missing_only_if_every_target_answered_without_it() -> None:
    missing = ClientError("no topic t")
    down = ConnectError("down", address="h:2")
    assert having([A, B], ["x", None], missing)[0] == [(A, "x")]
    found, errors = having([A, B], [None, down], missing)
    assert (found, len(errors)) == ([], 1)
    with pytest.raises(ClientError, match="no topic t"):
        having([A, B], [None, None], missing)
    with pytest.raises(ClientError, match="no topic t"):
        having([], [], missing)


def test_the_address_of_the_error_wins_over_that_of_the_call() -> None:
    """A request may have been sent to another address than the one of the target."""
    assert describe(ConnectError("x", address="h:9"), address="h:1").address == "h:9"
    assert describe(refusal("h:9", 17, 1, "x"), address="h:1").address == "h:9"


def test_the_remark_of_a_refusal_is_cut_at_its_first_line_and_kept_in_full() -> None:
    error = refusal("h:1", 17, 1, "  first\n\tat Java\n")
    assert error.message.endswith("SYSTEM_ERROR (1): first …")
    assert "at Java" in error.remark
    assert refusal("h:1", 17, 1, "only\n  ").message.endswith(": only")


def test_an_unknown_code_is_shown_as_its_number() -> None:
    assert "31999" in refusal("h:1", 31_999, 1, "x").message
    assert "4711" in refusal("h:1", 17, 4_711, "x").message


@pytest.mark.parametrize(
    ("code", "show"),
    [
        (RequestCode.UPDATE_BROKER_CONFIG, "mqadmin broker config show"),
        (RequestCode.UPDATE_NAMESRV_CONFIG, "mqadmin namesrv config show"),
    ],
)
def test_a_setting_that_is_not_changed_at_run_time_leads_to_the_file(code: int, show: str) -> None:
    hint = refusal("h:1", code, ResponseCode.NO_PERMISSION, "needs a restart").hint
    assert "configuration file" in hint
    assert "restart" in hint
    assert show in hint
    assert "mqadmin topic perm" not in hint
