import pytest

from broker.errors import RemoteProtocolError
from broker.remoting.protocol.header.consumer.offset import (
    ResetOffsetRequestHeader,
    SearchOffsetRequestHeader,
)
from broker.remoting.protocol.header.fields import decode_header_fields, encode_header_fields
from broker.remoting.protocol.header.query import QueryMessageRequestHeader

RESET = {"topic": "T1", "group": "G1", "timestamp": "-1", "isForce": "true"}


def test_fields_travel_as_text_under_their_java_names():
    header = ResetOffsetRequestHeader(topic="T1", group="G1", timestamp=-1, is_force=True)
    assert encode_header_fields(header) == {**RESET, "queueId": "-1"}
    assert decode_header_fields(ResetOffsetRequestHeader, RESET) == header


def test_absent_optional_fields_keep_their_defaults_and_none_is_not_written():
    header = decode_header_fields(
        SearchOffsetRequestHeader, {"topic": "T", "queueId": "0", "timestamp": "5"}
    )
    assert header.boundary_type is None
    assert header.lo is None
    assert "boundaryType" not in encode_header_fields(header)


def test_unknown_ext_fields_are_ignored():
    assert decode_header_fields(ResetOffsetRequestHeader, {**RESET, "AccessKey": "k"}).topic == "T1"


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("TRUE", True), ("True", True), ("false", False), ("yes", False), ("", False)],
)
def test_any_boolean_text_but_true_is_false(text, value):
    assert (
        decode_header_fields(ResetOffsetRequestHeader, {**RESET, "isForce": text}).is_force is value
    )


@pytest.mark.parametrize(
    ("text", "value"), [("007", 7), ("+7", 7), ("-0", 0), ("9223372036854775807", 2**63 - 1)]
)
def test_integers_are_read_as_java_reads_them(text, value):
    assert (
        decode_header_fields(ResetOffsetRequestHeader, {**RESET, "timestamp": text}).timestamp
        == value
    )


@pytest.mark.parametrize(
    "text", ["", "x", " 7", "7 ", "1_0", "0x7", "9223372036854775808", "٣", "9" * 5000]
)
def test_an_invalid_integer_is_reported_with_field_and_value(text):
    with pytest.raises(RemoteProtocolError, match=r"field timestamp \(timestamp\) is '") as caught:
        decode_header_fields(ResetOffsetRequestHeader, {**RESET, "timestamp": text})
    assert len(caught.value.message) < 200


def test_int32_fields_take_no_larger_numbers():
    with pytest.raises(RemoteProtocolError, match="queueId"):
        decode_header_fields(ResetOffsetRequestHeader, {**RESET, "queueId": "2147483648"})


def test_a_missing_required_field_is_named():
    with pytest.raises(RemoteProtocolError, match=r"field isForce \(is_force\) is missing"):
        decode_header_fields(
            ResetOffsetRequestHeader, {n: RESET[n] for n in RESET if n != "isForce"}
        )


def test_names_other_than_camel_case():
    header = QueryMessageRequestHeader(
        topic="T", key="K", max_num=1, begin_timestamp=0, end_timestamp=9, unique_key_query=True
    )
    ext = encode_header_fields(header)
    assert ext["_UNIQUE_KEY_QUERY"] == "true"
    assert decode_header_fields(QueryMessageRequestHeader, ext) == header


def test_every_request_may_name_its_broker():
    header = decode_header_fields(
        ResetOffsetRequestHeader, {**RESET, "bname": "b-a", "nsd": "true"}
    )
    assert (header.bname, header.nsd) == ("b-a", True)
