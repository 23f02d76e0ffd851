"""Headers of transactions: wire names, types, required fields, defaults."""

import pytest

from broker.remoting.protocol.header import transaction
from tests.support.header_fields import check_header, headers_of

# The notation is explained in tests/support/header_fields.py.
DECLARED = {
    transaction.EndTransactionRequestHeader: (
        "topic:s?, producerGroup:s!, tranStateTableOffset:l!, commitLogOffset:l!, "
        "commitOrRollback:i!, fromTransactionCheck:b=false, msgId:s!, transactionId:s?"
    ),
    transaction.CheckTransactionStateRequestHeader: (
        "topic:s?, tranStateTableOffset:l!, commitLogOffset:l!, msgId:s?, transactionId:s?, "
        "offsetMsgId:s?"
    ),
    transaction.ResumeCheckHalfMessageRequestHeader: "topic:s?, msgId:s?",
}


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
def test_the_fields_are_those_of_java(cls) -> None:
    check_header(cls, DECLARED[cls])


def test_every_header_of_the_module_is_declared() -> None:
    assert headers_of(transaction) == set(DECLARED)
