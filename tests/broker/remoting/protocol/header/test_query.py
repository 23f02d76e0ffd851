"""Headers of queries: wire names, types, required fields, defaults."""

import pytest

from broker.remoting.protocol.header import query
from tests.support.header_fields import check_header, headers_of

# The notation is explained in tests/support/header_fields.py.
DECLARED = {
    query.QueryMessageRequestHeader: (
        "topic:s!, key:s!, maxNum:i!, beginTimestamp:l!, endTimestamp:l!, _UNIQUE_KEY_QUERY:b?"
    ),
    query.QueryMessageResponseHeader: ("indexLastUpdateTimestamp:l!, indexLastUpdatePhyoffset:l!"),
    query.ViewMessageRequestHeader: "topic:s?, offset:l!",
    query.QueryConsumeQueueRequestHeader: (
        "topic:s!, queueId:i!, index:l!, count:i!, consumerGroup:s?"
    ),
}


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
def test_the_fields_are_those_of_java(cls) -> None:
    check_header(cls, DECLARED[cls])


def test_every_header_of_the_module_is_declared() -> None:
    assert headers_of(query) == set(DECLARED)
