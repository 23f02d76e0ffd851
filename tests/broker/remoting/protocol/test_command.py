from broker.remoting.protocol import command
from broker.remoting.protocol.codes import VERSION
from broker.remoting.protocol.command import RemotingCommand, next_opaque, request, response


def test_requests_get_their_own_opaque_and_no_flag():
    first, second = request(105, {"topic": "T1"}), request(106)
    assert first.opaque != second.opaque
    assert (first.code, first.ext_fields, first.body) == (105, {"topic": "T1"}, b"")
    assert not first.is_response
    assert not first.is_oneway
    assert first.version == VERSION
    assert second.ext_fields == {}


def test_oneway_requests_carry_bit_1():
    oneway = request(15, oneway=True)
    assert oneway.flag == 2
    assert oneway.is_oneway
    assert not oneway.is_response


def test_a_response_echoes_the_opaque():
    asked = request(11)
    answer = response(asked, 19, "OFFSET_OVERFLOW_ONE", {"minOffset": "0"}, b"x")
    assert answer.opaque == asked.opaque
    assert answer.flag == 1
    assert answer.is_response
    assert (answer.code, answer.remark, answer.body) == (19, "OFFSET_OVERFLOW_ONE", b"x")


def test_ext_fields_are_not_shared_between_commands():
    one, other = RemotingCommand(), RemotingCommand()
    one.ext_fields["a"] = "b"
    assert other.ext_fields == {}


def test_opaques_start_again_before_they_turn_negative(monkeypatch):
    monkeypatch.setattr(command, "opaques", iter([0x7FFFFFFF, 0x80000000]))
    assert [next_opaque(), next_opaque()] == [0x7FFFFFFF, 0]


def test_a_body_of_buffers_is_joined_on_demand():
    assert (
        RemotingCommand(body=[b"ab", memoryview(b"cd"), bytearray(b"e")]).body_bytes() == b"abcde"
    )
    assert RemotingCommand(body=memoryview(b"xy")).body_bytes() == b"xy"
    whole = b"whole"
    assert RemotingCommand(body=whole).body_bytes() is whole
