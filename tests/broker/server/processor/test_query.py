"""Looking messages up by key and by physical offset."""

import contextlib
import gzip
import json

import pytest

from broker.errors import RemoteProtocolError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import request
from broker.remoting.protocol.framing import FrameDecoder
from broker.remoting.protocol.serialize import encode_json_header
from broker.server.processor import query as processor
from tests.support.direct_answers import joined
from tests.support.mutated_header import mutated


def query(desk, key: str, *, unique: bool = False, **fields):
    ext = {
        "topic": "Orders",
        "key": key,
        "maxNum": 64,
        "beginTimestamp": 0,
        "endTimestamp": 2**63 - 1,
        **fields,
    }
    if unique:
        ext["_UNIQUE_KEY_QUERY"] = "true"
    return desk.ask(RequestCode.QUERY_MESSAGE, ext)


@pytest.fixture(params=["ordinary path", "direct path"], name="desk")
def desk_of_a_path(request, desk):
    """Each test on both paths: the direct one is asked first, as by a connection."""
    if request.param == "direct path":
        for code, answer in processor.direct_answers(desk.context).items():
            desk.handlers[code] = directly(answer, desk.handlers[code])
    return desk


def directly(answer, handler):
    def handle(connection, command):
        try:
            found = joined(answer(connection, encode_json_header(command)))
        except RemoteProtocolError:
            found = None
        return handler(connection, command) if found is None else found

    return handle


@pytest.fixture
def stored(desk):
    desk.topic("Orders")
    for number in range(3):
        desk.send(
            body=b"%d" % number,
            properties={"KEYS": f"k{number} all", "UNIQ_KEY": f"{number}" * 32},
        )
    return desk


def test_a_request_without_a_response_is_left_to_the_ordinary_path(stored) -> None:
    answer = processor.direct_answers(stored.context)[RequestCode.VIEW_MESSAGE_BY_ID]
    command = request(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0"})
    assert answer(stored.connection, encode_json_header(command))
    command.flag = 2
    assert answer(stored.connection, encode_json_header(command)) is None


def test_each_word_of_keys_finds_its_message(stored, records) -> None:
    assert [m.body for m in records(query(stored, "k1"))] == [b"1"]
    assert [m.body for m in records(query(stored, "all"))] == [b"0", b"1", b"2"]


def test_unique_key_finds_its_message(stored, records) -> None:
    assert [m.body for m in records(query(stored, "2" * 32, unique=True))] == [b"2"]


def test_the_response_contains_the_end_of_the_index(stored) -> None:
    ext = query(stored, "k1").ext_fields
    assert ext["indexLastUpdateTimestamp"] == str(stored.clock.now_ms())
    assert int(ext["indexLastUpdatePhyoffset"]) == stored.messages("Orders")[-1].physical_offset


@pytest.mark.parametrize("fields", [{"key": "none"}, {"topic": "Other"}, {"endTimestamp": 1000}])
def test_nothing_found(stored, fields) -> None:
    answer = query(stored, **{"key": "k1", **fields})
    assert answer.code == ResponseCode.QUERY_NOT_FOUND
    assert "indexLastUpdateTimestamp" in answer.ext_fields
    assert answer.body_bytes() == b""


def test_no_more_than_asked_for(stored, records) -> None:
    assert len(records(query(stored, "all", maxNum=2))) == 2


@pytest.mark.parametrize("number", [0, -5])
def test_asking_for_none_finds_none(stored, number) -> None:
    assert query(stored, "all", maxNum=number).code == ResponseCode.QUERY_NOT_FOUND


def test_unique_query_has_the_brokers_limit(make_desk, records) -> None:
    desk = make_desk(defaultQueryMaxNum="1")
    desk.topic("Orders")
    for _ in range(3):
        desk.send()
    key = desk.messages("Orders")[0].uniq_key
    assert len(records(query(desk, key, unique=True))) == 1
    assert len(records(query(desk, key))) == 3


def test_an_answer_holds_the_newest_messages_that_fit(stored, records, monkeypatch) -> None:
    size = len(query(stored, "k1").body)
    monkeypatch.setattr(processor, "MAX_QUERY_BYTES", 2 * size)
    answer = query(stored, "all")
    assert [m.body for m in records(answer)] == [b"1", b"2"]
    assert answer.remark == "cut to 2 of 3 messages: narrow the time range"
    assert answer.code == 0


def test_one_message_is_always_answered(stored, records, monkeypatch) -> None:
    monkeypatch.setattr(processor, "MAX_QUERY_BYTES", 1)
    assert [m.body for m in records(query(stored, "all"))] == [b"2"]
    assert query(stored, "k1").remark is None


@pytest.mark.parametrize("field", ["topic", "key", "maxNum", "beginTimestamp"])
def test_missing_field_is_named(stored, field) -> None:
    ext = {"topic": "T", "key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1}
    del ext[field]
    answer = stored.ask(RequestCode.QUERY_MESSAGE, ext)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert field in answer.remark


def test_view_gives_the_record_at_an_offset(stored, records) -> None:
    wanted = stored.messages("Orders")[1]
    answer = stored.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": wanted.physical_offset})
    assert answer.code == 0
    assert records(answer) == [wanted]


@pytest.mark.parametrize("offset", [1, 10**9, -1])
def test_a_view_of_another_object_is_an_error(stored, offset) -> None:
    answer = stored.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert str(offset) in answer.remark


def test_view_without_offset(stored) -> None:
    answer = stored.ask(RequestCode.VIEW_MESSAGE_BY_ID, {})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "offset" in answer.remark


@pytest.mark.parametrize("text", ["1_0", " 1", "\u0661", "1.0", "9223372036854775808"])
@pytest.mark.parametrize("field", ["maxNum", "beginTimestamp", "endTimestamp"])
def test_a_number_is_read_as_java_reads_it_and_a_wrong_one_named(stored, field, text) -> None:
    answer = query(stored, "k1", **{field: text})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert f"header field {field} is {text!r}" in answer.remark


@pytest.mark.parametrize("text", ["1_0", " 0", "\u0660"])
def test_the_offset_of_a_view_is_read_as_java_reads_it(stored, text) -> None:
    answer = stored.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": text})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert f"header field offset is {text!r}" in answer.remark


def ordinary(desk, header: bytes) -> bytes | None:
    """The response of the ordinary path to a frame with this header, None for a refusal."""
    size = len(header)
    frame = (4 + size).to_bytes(4, "big") + size.to_bytes(4, "big") + header
    (command,) = FrameDecoder().feed(frame)
    handler = processor.HANDLERS.get(command.code)
    found = handler(desk.context, desk.connection, command) if handler is not None else None
    return found if isinstance(found, bytes) else None


@pytest.mark.parametrize("code", [RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID])
def test_mutated_headers_have_the_response_of_the_ordinary_path(stored, rng, code) -> None:
    direct = processor.direct_answers(stored.context)[code]
    fields = {
        "topic": "Orders",
        "key": "all",
        "maxNum": "2",
        "beginTimestamp": "0",
        "endTimestamp": str(2**63 - 1),
        "offset": str(stored.messages("Orders")[1].physical_offset),
    }
    if code == RequestCode.QUERY_MESSAGE:
        del fields["offset"]
    names = (*fields, "_UNIQUE_KEY_QUERY", "lo", "nsd", "oway", "unknown")
    taken = 0
    for _ in range(2_000):
        header = mutated(rng, encode_json_header(request(code, fields)), names)
        with contextlib.suppress(RemoteProtocolError):  # the connection reports it
            found = joined(direct(stored.connection, header))
            if found is not None:
                taken += 1
                assert found == ordinary(stored, header), header
    assert taken > 200


@pytest.mark.parametrize("unique", [None, "true", "false", "TRUE", ""])
@pytest.mark.parametrize("count", [-1, 0, 1, 2, 5_000])
def test_responses_of_the_direct_path(stored, unique, count) -> None:
    fields = {"topic": "Orders", "key": "all", "maxNum": str(count), "beginTimestamp": "0"}
    fields["endTimestamp"] = str(2**63 - 1)
    if unique is not None:
        fields["_UNIQUE_KEY_QUERY"] = unique
    header = encode_json_header(request(RequestCode.QUERY_MESSAGE, fields))
    direct = processor.direct_answers(stored.context)[RequestCode.QUERY_MESSAGE]
    found = joined(direct(stored.connection, header))
    assert found == ordinary(stored, header)


@pytest.mark.parametrize("peer", ["java-4.9.8", "java-5.3.3", "mqadmin-4.9.8"])
def test_the_queries_of_clients_are_answered_directly(golden, stored, peer) -> None:
    direct = processor.direct_answers(stored.context)[RequestCode.QUERY_MESSAGE]
    with gzip.open(golden / "frames" / f"{peer}.jsonl.gz", "rt") as lines:
        frames = [json.loads(line) for line in lines]
    sent = [one for one in frames if one["from"] == "client" and one["code"] == 12]
    assert sent
    for one in sent:
        header = bytes.fromhex(one["hex"])[8:]
        found = joined(direct(stored.connection, header))
        assert found is not None
        assert found == ordinary(stored, header)
