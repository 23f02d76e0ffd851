import json
import random

import pytest

from broker.errors import LocalProtocolError, RemoteProtocolError
from broker.remoting.protocol.command import JSON, ROCKETMQ, RemotingCommand
from broker.remoting.protocol.serialize import (
    MAX_EXT_FIELDS,
    MAX_HEADER_BYTES,
    MAX_TOLERANT_HEADER_BYTES,
    decode_header,
    decode_json_header,
    decode_rocketmq_header,
    encode_header,
    encode_json_header,
    encode_rocketmq_header,
)


def test_json_header_has_javas_field_order():
    command = RemotingCommand(
        code=105, language="PYTHON", version=479, opaque=7, ext_fields={"topic": "T1"}
    )
    assert encode_json_header(command) == (
        b'{"code":105,"extFields":{"topic":"T1"},"flag":0,"language":"PYTHON","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":479}'
    )


def test_rocketmq_header_of_the_known_vector():
    command = RemotingCommand(
        code=105,
        language="PYTHON",
        version=479,
        opaque=7,
        ext_fields={"topic": "T1"},
        serialize_type=ROCKETMQ,
    )
    expected = bytes.fromhex(
        "0069 03 01df 00000007 00000000 00000000 0000000d 0005 746f706963 00000002 5431"
    )
    assert encode_header(command) == expected
    assert decode_header(1, expected) == command


@pytest.mark.parametrize("form", [JSON, ROCKETMQ])
def test_encode_and_decode_are_inverse(form):
    choose = random.Random(20261121)
    alphabet = 'aZ09%|_-\x01\x02"\\/\n\x7fé消\u2028😀'

    def text(most):
        return "".join(choose.choice(alphabet) for _ in range(choose.randrange(1, most)))

    for _ in range(300):
        command = RemotingCommand(
            code=choose.randrange(-0x8000, 0x8000),
            language=choose.choice(["JAVA", "GO", "NODE_JS", 99]),
            version=choose.randrange(0x8000),
            opaque=choose.randrange(-(2**31), 2**31),
            flag=choose.randrange(4),
            remark=choose.choice([None, text(30)]),
            ext_fields={text(8): text(40) for _ in range(choose.randrange(6))},
            serialize_type=form,
        )
        again = decode_header(0 if form == JSON else 1, encode_header(command))
        if form == JSON and command.language == 99:
            again.language = 99  # a number is read as an ordinal, kept when unknown
        assert again == command


@pytest.mark.parametrize(
    "header",
    [
        b"{'code':105,extFields:{topic:'T1'},\"opaque\":7,}",
        b'{"code":"105","extFields":{"topic":"T1"},"opaque":7.0}',
        b'/* from a shell script */{"code":105,"opaque":7,"extFields":{"topic":"T1"}}',
    ],
)
def test_input_that_java_tolerates_is_read(header):
    command = decode_json_header(header)
    assert (command.code, command.opaque, command.ext_fields) == (105, 7, {"topic": "T1"})


def test_raw_control_characters_and_typed_ext_values_become_text():
    command = decode_json_header(
        b'{"code":10,"extFields":{"i":"a\x01b\x02","n":3,"t":true,"f":false,"z":null}}'
    )
    assert command.ext_fields == {"i": "a\x01b\x02", "n": "3", "t": "true", "f": "false"}


def test_absent_fields_have_javas_defaults():
    command = decode_json_header(b"{}")
    assert (command.code, command.language, command.version, command.opaque) == (0, "JAVA", 0, 0)
    assert (command.flag, command.remark, command.ext_fields) == (0, None, {})


@pytest.mark.parametrize(
    ("language", "expected"),
    [(b'"GO"', "GO"), (b"9", "GO"), (b'"KLINGON"', "KLINGON"), (b"77", 77), (b"null", None)],
)
def test_language_is_a_name_or_an_ordinal(language, expected):
    assert decode_json_header(b'{"language":%b,"x":1}' % language).language == expected


def test_unknown_header_fields_survive():
    data = b'{"code":1,"flag":0,"futureField":{"a":[1]},"language":"JAVA","opaque":2,"zone":"z"}'
    command = decode_json_header(data)
    assert command.extra == {"futureField": {"a": [1]}, "zone": "z"}
    again = json.loads(encode_json_header(command))
    assert again["futureField"] == {"a": [1]}
    assert again["zone"] == "z"
    assert again["code"] == 1


def test_a_peer_cannot_put_a_body_into_the_header():
    assert decode_json_header(b'{"code":1,"#body":"hello"}').body == b""
    command = decode_json_header(b'{"code":1,"body":"x"}')
    assert command.body == b""
    assert command.extra == {"body": "x"}


def test_invalid_utf8_is_replaced_as_in_java():
    assert decode_json_header(b'{"code":1,"remark":"a\xffb"}').remark == "a\ufffdb"
    assert decode_json_header(b'{"code":1,"remark":"a\\ud800b"}').remark == "a?b"


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"null",
        b"[]",
        b"105",
        b'{"code":105',
        b'{"code":"many"}',
        b'{"code":[1]}',
        b'{"code":"1_0"}',
        '{"opaque":"\u0661"}'.encode(),
        b'{"version":"' + b"1" * 5000 + b'"}',
        b'{"opaque":4294967296}',
        b'{"opaque":1e400}',
        b'{"extFields":[]}',
        b'{"extFields":"x"}',
        b"{" * 5000,
        b"[" * 100_000,
        b'{"#body":' + b"[" * 100_000,
        b'{"extFields":{"a":' + b"[" * 100_000,
        b'{"zone":' + b"[" * 200 + b"]" * 200 + b"}",
    ],
)
def test_unreadable_json_headers_are_refused(header):
    with pytest.raises(RemoteProtocolError):
        decode_json_header(header)


def test_a_reference_in_a_header_is_text():
    """It must not be followed: 489 bytes of references to references expanded for seconds."""
    command = decode_json_header(
        b'{"code":10,"extFields":{"a":{"x":1},"b":{"$ref":"$.extFields.a"}},"zone":{"$ref":"$"}}'
    )
    assert command.ext_fields == {"a": '{"x":1}', "b": '{"$ref":"$.extFields.a"}'}
    assert command.extra == {"zone": {"$ref": "$"}}


def test_a_header_of_nested_references_costs_time_in_proportion_to_its_length(monkeypatch):
    def fail(*_):
        raise AssertionError("references of a header are resolved")

    monkeypatch.setattr("broker.common.encoding.java_json_reader.resolve_references", fail)
    doubling = b"".join(
        b',"a%d":[{"$ref":"$.extFields.a%d"},{"$ref":"$.extFields.a%d"}]' % (i + 1, i, i)
        for i in range(40)
    )
    command = decode_json_header(b'{"code":10,"extFields":{"a0":"1"' + doubling + b"}}")
    assert len(command.ext_fields) == 41


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":10,"extFields":{1:1,"1":"a"}}',
        b'{"code":10,"extFields":{"x":{1:1,"1":"a"}}}',
        b'{"code":10,"extFields":{{1:1,"1":"a"}:2}}',
        b'{"code":10,{1:1,"1":"a"}:{"1":1,1:2}}',
        b'{"code":10,"extFields":{"x":{{"a":1}:{"b":2}}}}',
        b'{"code":10,"extFields":{"x":{[1]:[2]}}}',
        b'{"code":10,"extFields":{"x":' + b"9" * 5000 + b"}}",
        b'{"code":10,"extFields":{"x":1e999}}',
        b'{"code":10,"language":[{"x":{1:2}}]}',
        b'{"code":10,"remark":{1:{"1":2}}}',
        b'{"code":1e999}',
        b'{"extFields":{' + b"{" * 30 + b"1" + b":1}" * 30 + b":1}}",
    ],
)
def test_keys_of_any_kind_are_text_or_a_protocol_error(header):
    try:
        command = decode_json_header(header)
    except RemoteProtocolError:
        return
    assert all(type(k) is str and type(v) is str for k, v in command.ext_fields.items())


def test_only_a_short_header_may_be_other_than_standard_json():
    padding = b" " * MAX_TOLERANT_HEADER_BYTES
    assert decode_json_header(b"{'code':105}").code == 105
    with pytest.raises(RemoteProtocolError, match="not standard JSON"):
        decode_json_header(b"{'code':105}" + padding)
    assert decode_json_header(b'{"code":105,"zone":"a\x01"}' + padding).code == 105


@pytest.mark.parametrize("form", [JSON, ROCKETMQ])
def test_a_header_has_a_bounded_number_of_ext_fields(form):
    ext = {str(number): "1" for number in range(MAX_EXT_FIELDS)}
    command = RemotingCommand(ext_fields=ext, serialize_type=form)
    kind = int(form == ROCKETMQ)
    header = encode_header(command)
    assert len(header) < MAX_HEADER_BYTES
    assert decode_header(kind, header) == command
    ext["more"] = "1"
    with pytest.raises(RemoteProtocolError, match=f"more than {MAX_EXT_FIELDS} fields"):
        decode_header(kind, encode_header(command))


@pytest.mark.parametrize("number", [b'"%d":1', b'"%d":[]', b'"%d":"\xff"'])
@pytest.mark.parametrize("head", [b'{"code":1,"extFields":{%b}}', b'{"code":1,"zone":[],%b}'])
def test_the_slower_readers_read_a_bounded_number_of_fields(head, number):
    fields = b",".join(number % at for at in range(MAX_EXT_FIELDS + 1))
    with pytest.raises(RemoteProtocolError, match=f"more than {MAX_EXT_FIELDS} fields"):
        decode_json_header(head % fields)


def test_empty_ext_fields_of_the_rocketmq_form_count():
    ext = bytes(6) * (MAX_EXT_FIELDS + 1)
    with pytest.raises(RemoteProtocolError, match=f"more than {MAX_EXT_FIELDS} fields"):
        decode_rocketmq_header(bytes(17) + len(ext).to_bytes(4) + ext)


def test_unknown_serialize_type_is_refused():
    with pytest.raises(RemoteProtocolError, match="serialize type 2"):
        decode_header(2, b"{}")


def test_a_code_above_32767_loses_its_upper_bits_in_the_rocketmq_form():
    command = RemotingCommand(code=200050, serialize_type=ROCKETMQ)
    assert decode_rocketmq_header(encode_rocketmq_header(command)).code == 3442


def test_empty_values_do_not_survive_the_rocketmq_form():
    command = RemotingCommand(ext_fields={"a": "", "b": "1"}, serialize_type=ROCKETMQ, remark="")
    again = decode_rocketmq_header(encode_rocketmq_header(command))
    assert again.ext_fields == {"b": "1"}
    assert again.remark is None


def test_the_last_of_two_equal_ext_names_wins():
    def entry(name, value):
        return len(name).to_bytes(2) + name + len(value).to_bytes(4) + value

    ext = entry(b"a", b"1") + entry(b"b", b"2") + entry(b"a", b"3")
    header = bytes(13) + bytes(4) + len(ext).to_bytes(4) + ext
    assert decode_rocketmq_header(header).ext_fields == {"a": "3", "b": "2"}


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (bytes(20), "ends inside its fixed part"),
        (bytes(13) + b"\x00\x00\x00\x09abc", "text of 9 bytes, 3 are left"),
        (bytes(17) + b"\x00\x00\x00\x05abc", "5 bytes, 3 are there"),
        (bytes(17) + b"\x00\x00\x00\x00abc", "0 bytes, 3 are there"),
        (bytes(17) + b"\x00\x00\x00\x01a", "inside a length"),
        (bytes(17) + b"\x00\x00\x00\x03\x00\x05a", "text of 5 bytes, 1 are left"),
        (bytes(17) + b"\x00\x00\x00\x08\x00\x01a\xff\xff\xff\xffb", "text of 4294967295 bytes"),
        (bytes(13) + b"\xff\xff\xff\xff" + bytes(4), "text of 4294967295 bytes, 4 are left"),
        (bytes(13) + b"\x00\x00\x00\x02ab\x00", "ends inside its fixed part"),
    ],
)
def test_rocketmq_lengths_that_lead_outside_are_named(header, reason):
    with pytest.raises(RemoteProtocolError, match=reason):
        decode_rocketmq_header(header)


@pytest.mark.parametrize("form", [JSON, ROCKETMQ])
def test_text_that_no_peer_could_read_is_ours_to_refuse(form):
    command = RemotingCommand(code=1, ext_fields={"a": "\ud800"}, serialize_type=form)
    with pytest.raises(LocalProtocolError, match="request 1"):
        encode_header(command)


def test_rocketmq_names_are_at_most_32767_bytes():
    command = RemotingCommand(ext_fields={"a" * 40000: "1"}, serialize_type=ROCKETMQ)
    with pytest.raises(LocalProtocolError, match="40000 bytes"):
        encode_header(command)
