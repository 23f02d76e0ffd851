import pytest

from broker.errors import RemoteProtocolError
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.header.fields import encode_header_fields
from broker.remoting.protocol.header.send import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
    decode_send_header,
)

V2_FIELD_NAMES = {
    "a": "P1", "b": "T1", "c": "TBW102", "d": "4", "e": "-1", "f": "0", "g": "1700000000000",
    "h": "0", "i": "TAGS\x01A\x02", "j": "1", "k": "false", "l": "16", "m": "true", "n": "b-a",
}  # fmt: skip
LONG = {
    "producerGroup": "P1", "topic": "T1", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
    "queueId": "-1", "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0",
    "properties": "TAGS\x01A\x02", "reconsumeTimes": "1", "unitMode": "false",
    "maxReconsumeTimes": "16", "batch": "true", "bname": "b-a",
}  # fmt: skip


@pytest.mark.parametrize("code", [310, 320, 325])
def test_short_field_names_read_like_the_long_form(code):
    header = decode_send_header(RemotingCommand(code=code, ext_fields=V2_FIELD_NAMES))
    long = decode_send_header(RemotingCommand(code=10, ext_fields=LONG))
    assert type(header) is SendMessageRequestHeaderV2
    assert type(long) is SendMessageRequestHeader
    for name in SendMessageRequestHeader.__struct_fields__:
        assert getattr(header, name) == getattr(long, name), name
    assert header.queue_id == -1
    assert header.batch is True
    assert encode_header_fields(header) == V2_FIELD_NAMES
    assert encode_header_fields(long) == LONG


def test_an_error_names_letter_and_meaning():
    with pytest.raises(RemoteProtocolError, match=r"field g \(born_timestamp\) is 'soon'"):
        decode_send_header(RemotingCommand(code=310, ext_fields={**V2_FIELD_NAMES, "g": "soon"}))


def test_the_answer_carries_region_and_trace_marks():
    header = SendMessageResponseHeader(
        msg_id="ID", queue_id=1, queue_offset=2, msg_region="DefaultRegion", trace_on="true"
    )
    assert encode_header_fields(header) == {
        "msgId": "ID",
        "queueId": "1",
        "queueOffset": "2",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
