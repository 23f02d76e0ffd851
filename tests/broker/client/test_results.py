"""Values that are also numbers or names on the wire."""

from broker.client.results import LocalTransactionState, PullStatus, SendStatus
from broker.common import sysflag


def test_transaction_states_are_the_numbers_of_end_transaction() -> None:
    assert LocalTransactionState.COMMIT_MESSAGE.value == sysflag.TRANSACTION_COMMIT
    assert LocalTransactionState.ROLLBACK_MESSAGE.value == sysflag.TRANSACTION_ROLLBACK
    assert LocalTransactionState.UNKNOWN.value == sysflag.TRANSACTION_NOT_TYPE


def test_statuses_print_as_their_names() -> None:
    assert f"{SendStatus.SEND_OK} {PullStatus.NO_NEW_MSG}" == "SEND_OK NO_NEW_MSG"
