"""Headers of role changes and checksums."""

import pytest

from broker.errors import RemoteProtocolError
from broker.remoting.protocol.header.fields import decode_header_fields, encode_header_fields
from broker.remoting.protocol.header.role import (
    ChangeBrokerRoleRequestHeader,
    GetLogChecksumRequestHeader,
    GetLogChecksumResponseHeader,
)


def test_headers_survive_the_wire() -> None:
    header = ChangeBrokerRoleRequestHeader(
        action="promote", epoch=3, target="h:1", broker_id=1, expected_offset=2**62
    )
    for one in (
        header,
        GetLogChecksumRequestHeader(physical_offset=7, size=9),
        GetLogChecksumResponseHeader(crc=2**32 - 1, size=9),
    ):
        assert decode_header_fields(type(one), encode_header_fields(one)) == one


@pytest.mark.parametrize("fields", [{}, {"action": "fence", "epoch": "x"}])
def test_a_missing_action_or_an_epoch_that_is_not_a_number_is_refused(fields) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_header_fields(ChangeBrokerRoleRequestHeader, fields)
