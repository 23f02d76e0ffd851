"""Result types of the engine: names of Java, derived values."""

import pytest

from broker.store.results import (
    GetMessageResult,
    GetMessageStatus,
    MessageExtBrokerInner,
    PutMessageResult,
    PutMessageStatus,
    RecoveryReport,
)


@pytest.mark.parametrize("status", [PutMessageStatus, GetMessageStatus])
def test_statuses_are_named_as_in_java(status) -> None:
    """They are part of remarks on the wire."""
    assert all(item.name == item.value for item in status)


def test_the_end_of_a_record_is_its_offset_plus_its_size() -> None:
    result = PutMessageResult(PutMessageStatus.PUT_OK, physical_offset=4096, store_size=200)
    assert result.physical_end == 4296
    assert result.message_count == 1


def test_a_refused_put_has_no_place() -> None:
    result = PutMessageResult(PutMessageStatus.MESSAGE_ILLEGAL, remark="too long")
    assert (result.physical_offset, result.remark) == (-1, "too long")


def test_results_do_not_share_their_lists() -> None:
    one, other = GetMessageResult(GetMessageStatus.FOUND), GetMessageResult(GetMessageStatus.FOUND)
    one.buffers.append(memoryview(b"x"))
    assert other.buffers == []
    first, second = RecoveryReport(), RecoveryReport()
    first.notes.append("x")
    assert second.notes == []


def test_a_message_has_loopback_hosts_unless_given() -> None:
    message = MessageExtBrokerInner("T", 0, b"x")
    assert message.born_host == message.store_host == bytes((127, 0, 0, 1, 0, 0, 0, 0))
    assert message.tags_code is None
