import pytest

from broker.errors import ClientError
from mqadmin.admin.metadata.passwords import password_of, variable_of


def test_the_file_precedes_the_variable() -> None:
    both = {"a-b": "file", "MQADMIN_USER_PASSWORD_A_B": "variable"}
    assert password_of("a-b", both) == "file"
    assert password_of("a-b", {"MQADMIN_USER_PASSWORD_A_B": "variable"}) == "variable"


@pytest.mark.parametrize(
    ("name", "variable"),
    [("alice", "ALICE"), ("svc-1", "SVC_1"), ("a.b@c", "A_B_C"), ("é", "_")],
)
def test_a_variable_has_capitals_digits_and_underscores(name: str, variable: str) -> None:
    assert variable_of(name) == f"MQADMIN_USER_PASSWORD_{variable}"


@pytest.mark.parametrize("given", [{}, {"alice": ""}, {"bob": "x"}])
def test_without_a_password_the_error_names_user_variable_and_option(given: dict[str, str]) -> None:
    with pytest.raises(ClientError) as found:
        password_of("alice", given)
    assert "user alice" in found.value.message
    assert "--secrets-file" in found.value.hint
    assert "MQADMIN_USER_PASSWORD_ALICE" in found.value.hint


def test_a_plan_has_no_passwords() -> None:
    with pytest.raises(ClientError) as found:
        password_of("alice", None)
    assert "mqadmin user create alice" in found.value.hint
