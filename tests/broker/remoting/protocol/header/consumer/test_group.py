import pytest

from broker.remoting.protocol.header.consumer.group import DeleteSubscriptionGroupRequestHeader
from broker.remoting.protocol.header.fields import decode_header_fields


@pytest.mark.parametrize(
    ("ext", "cleans"),
    [
        ({}, False),
        ({"cleanOffset": "true"}, True),
        ({"removeOffset": "true"}, True),
        ({"cleanOffset": "false"}, False),
    ],
)
def test_either_generations_flag_cleans_the_offsets(ext, cleans):
    header = decode_header_fields(DeleteSubscriptionGroupRequestHeader, {"groupName": "G", **ext})
    assert header.cleans is cleans
