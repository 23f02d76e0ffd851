import gzip
import json

import pytest

from broker.common.encoding import java_json_reader
from broker.common.encoding.java_json import (
    dump_bytes,
    dumps,
    loads,
)
from broker.common.encoding.java_json_reader import read_text
from broker.common.encoding.java_values import MAX_DEPTH, MAX_REF_NODES, FrozenObject, Lines
from broker.common.message_queue import MessageQueue
from broker.errors import LocalProtocolError, RemoteProtocolError

KEY = FrozenObject((("brokerName", "b-a"), ("queueId", 3), ("topic", "T1")))
BODY = '{"offsetTable":{{"brokerName":"b-a","queueId":3,"topic":"T1"}:{"maxOffset":25}},"x":0.0}'


def test_config_files_read_and_write_back_to_the_byte(vectors) -> None:
    assert len(vectors["config_json"]) == 15
    for name, text in vectors["config_json"].items():
        value = loads(text)
        if name.startswith("consumerOrderInfo"):
            for queues in value["table"].values():
                for info in queues.values():
                    info["o"] = Lines(info["o"])
        assert dumps(value, pretty="\n" in text) == text, name


def test_object_keys_read_as_frozen_objects_and_write_in_native_form() -> None:
    value = loads(BODY)
    assert value == {"offsetTable": {KEY: {"maxOffset": 25}}, "x": 0.0}
    assert dumps(value) == BODY
    assert KEY.get("queueId") == 3
    assert KEY.get("none", 7) == 7
    assert dict(KEY) == {"brokerName": "b-a", "queueId": 3, "topic": "T1"}
    assert "queueId" in repr(KEY)
    assert dumps({MessageQueue("T1", "b-a", 3): 5}) == dumps({KEY: 5})


def test_integer_keys_are_int_and_unquoted() -> None:
    assert loads('{0:"a",-5:"b","7":"c"}') == {0: "a", -5: "b", "7": "c"}
    assert dumps({0: "a", -5: "b", "7": "c"}) == '{0:"a",-5:"b","7":"c"}'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a':'it\\'s'}", {"a": "it's"}),
        (
            "{a:1,b_2:[true,false,null],$c:undefined}",
            {"a": 1, "b_2": [True, False, None], "$c": None},
        ),
        ("/* c */ {a : 1, // end\n b:2}", {"a": 1, "b": 2}),
        ("{a:1,,b:2,}", {"a": 1, "b": 2}),
        ("[1,,2,]", [1, 2]),
        ('{"a":"tab\there\x01"}', {"a": "tab\there\x01"}),
        ("[\"\\ud83d\\ude00\",'\\x41\\v\\0']", ["😀", "A\v\0"]),
        ("[1L,2.5D,1e3,-0,1F]", [1, 2.5, 1000.0, 0, 1]),
        ('{"a":NaN}', {"a": None}),
        ("{a:NaN}", {"a": None}),
        ("\ufeff{}", {}),
        ("", None),
        ("  \n", None),
        ("9223372036854775807", 9223372036854775807),
        ("99999999999999999999999", 99999999999999999999999),
        ('{[1,{"a":2}]:3}', {(1, FrozenObject((("a", 2),))): 3}),
        ('{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_input_accepted_by_fastjson_is_accepted(text: str, value: object) -> None:
    assert loads(text) == value
    assert loads(text.encode()) == value
    assert loads(memoryview(text.encode())) == value


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "}",
        "[1 2]",
        "{a 1}",
        "{:1}",
        "{a:}",
        "'x",
        '"x\\q"',
        "'\\u12'",
        "{a:1} x",
        "nul",
        "{a:b}",
        "1" * 1001 + "x",
        "[" + "9" * 5000 + "]",
        "/* open",
        "-",
        "{a:-}",
        "[1}",
    ],
)
def test_invalid_json_is_an_error_with_its_position(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="position") as caught:
        loads(text)
    assert caught.value.position >= 0


def test_every_cut_and_flip_is_a_value_or_a_protocol_error(every_cut, every_flip) -> None:
    texts = (
        BODY,
        "{'a':/*c*/[1,'\\u0041\\n',{b:-1.5e3L}],0:null,}",
        '{"a":{"b":[1,{"c":"d"}]},"r":{"$ref":"$.a.b[1]"}}',
    )
    for text in texts:
        assert every_cut(loads, text.encode()) == [0]
        every_flip(loads, text.encode())


def test_random_json_reads_alike_in_both_readers(rng) -> None:
    def value(depth: int) -> object:
        kind = rng.randrange(7 if depth < 4 else 5)
        if kind == 0:
            return rng.choice((None, True, False))
        if kind == 1:
            return rng.randrange(-(1 << 63), 1 << 63)
        if kind == 2:
            return rng.uniform(-1e12, 1e12)
        if kind in (3, 4):
            return "".join(rng.choices('a"\\\n\x01é😀/\u2028\x7f', k=rng.randint(0, 6)))
        if kind == 5:
            return [value(depth + 1) for _ in range(rng.randint(0, 4))]
        return {str(value(4)): value(depth + 1) for _ in range(rng.randint(0, 4))}

    def without_nulls(item: object) -> object:
        if isinstance(item, dict):
            return {k: without_nulls(v) for k, v in item.items() if v is not None}
        return [without_nulls(v) for v in item] if isinstance(item, list) else item

    for _ in range(300):
        item = value(0)
        text = json.dumps(item, ensure_ascii=rng.random() < 0.5)
        assert read_text(text) == item
        assert loads(text) == item
        for written in (dumps(item), dumps(item, pretty=True), dumps(item, sort_keys=True)):
            assert read_text(written) == without_nulls(item)
            assert loads(written) == without_nulls(item)


def test_references_are_replaced_by_their_targets() -> None:
    queue = '{"brokerName":"b","queueId":0,"topic":"T"}'
    key = FrozenObject((("brokerName", "b"), ("queueId", 0), ("topic", "T")))
    cases = {
        '{"a":{"b":[5,{"c":1}]},"r":{"$ref":"$.a.b[1]"}}': {
            "a": {"b": [5, {"c": 1}]},
            "r": {"c": 1},
        },
        '{"t":{' + queue + ':{"v":1}},"p":{{"$ref":"$.t.null"}:5}}': {
            "t": {key: {"v": 1}},
            "p": {key: 5},
        },
        '{"t":{'
        + queue
        + ':{"v":1}},"r":{"$ref":"$.t.MessageQueue\\\\ \\\\[topic\\\\=T,'
        + ' brokerName\\\\=b,\\\\ queueId\\\\=0\\\\]"}}': {"t": {key: {"v": 1}}, "r": {"v": 1}},
        '{"m":{0:{"x":1}},"r":{"$ref":"$.m.0"},"s":{"$ref":"$.m[0]"}}': {
            "m": {0: {"x": 1}},
            "r": {"x": 1},
            "s": {"x": 1},
        },
        '{"a":[1],"b":{"$ref":"$.a"},"c":{"$ref":"$.b[0]"}}': {"a": [1], "b": [1], "c": 1},
        '{"r":{"$ref":"$.none"},"s":{"$ref":".."},"t":{"$ref":"$.r["},"u":{"$ref":"$.v[9]"},'
        '"v":[]}': {
            "r": None,
            "s": None,
            "t": None,
            "u": None,
            "v": [],
        },
        '{"$ref":1,"a":2}': {"$ref": 1, "a": 2},
    }
    for text, value in cases.items():
        assert loads(text) == value


def test_references_cannot_form_a_circle() -> None:
    for text in (
        '{"a":{"$ref":"$"}}',
        '{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}',
        '{"a":{"$ref":"$.b.x"},"b":{"$ref":"$.a.x"}}',
    ):
        with pytest.raises(RemoteProtocolError, match="circle"):
            loads(text)


def _doubling(levels: int) -> str:
    """Each level is twice the level below, by two references to it."""
    pairs = (f',"a{i + 1}":[{{"$ref":"$.a{i}"}},{{"$ref":"$.a{i}"}}]' for i in range(levels))
    return '{"a0":1' + "".join(pairs) + "}"


def _doubling_keys(levels: int) -> str:
    """The same with the references in key position."""
    pairs = (f',"a{i + 1}":{{{{"$ref":"$.a{i}"}}:{{"$ref":"$.a{i}"}}}}' for i in range(levels))
    return '{"a0":{"x":1}' + "".join(pairs) + "}"


@pytest.mark.parametrize("bomb", [_doubling, _doubling_keys])
def test_the_work_for_references_is_bounded_by_the_length_of_the_text(bomb, monkeypatch) -> None:
    copies = []
    copy = java_json_reader.Resolver.copy

    def counted(resolver: object, node: object, depth: int) -> object:
        copies.append(node)
        return copy(resolver, node, depth)

    monkeypatch.setattr(java_json_reader.Resolver, "copy", counted)
    for levels in (12, 16, 40):
        text = bomb(levels)
        copies.clear()
        with pytest.raises(RemoteProtocolError, match=r"expands|key position"):
            loads(text)
        assert len(copies) <= len(text) + MAX_REF_NODES + 1


def test_a_path_through_references_is_walked_once(monkeypatch) -> None:
    walks = []
    walk = java_json_reader.Resolver.walk

    def counted(resolver: object, path: str, depth: int) -> object:
        walks.append(path)
        return walk(resolver, path, depth)

    monkeypatch.setattr(java_json_reader.Resolver, "walk", counted)
    # every path goes twice through the reference of the level above
    text = "".join(f',"a{i}":{{"x":{{"$ref":"$.a{i + 1}.x.x"}},"y":1}}' for i in range(30))
    loads("{" + text[1:] + ',"a30":{"x":{"x":{"x":1}}}}')
    assert len(walks) == len(set(walks))


def test_object_keys_are_looked_through_once_per_table(monkeypatch) -> None:
    tables = []
    object_keys = java_json_reader.collect_object_keys
    monkeypatch.setattr(
        java_json_reader,
        "collect_object_keys",
        lambda fields: tables.append(1) or object_keys(fields),
    )
    queues = ",".join(
        f'{{"brokerName":"b","queueId":{i},"topic":"T"}}:{{"v":{i}}}' for i in range(50)
    )
    paths = ",".join(
        f'{{"$ref":"$.t.MessageQueue\\\\ \\\\[topic\\\\=T,'
        f' brokerName\\\\=b,\\\\ queueId\\\\={i}\\\\]"}}'
        for i in range(50)
    )
    value = loads(f'{{"t":{{{queues}}},"r":[{paths}]}}')
    assert value["r"] == [{"v": i} for i in range(50)]
    assert len(tables) == 1


def test_an_object_key_with_an_object_as_its_key_is_refused() -> None:
    for depth in (3, 4, 30, 60):
        with pytest.raises(RemoteProtocolError, match="key position"):
            loads('{"x":' + "{" * depth + "1" + ":1}" * depth + "}")


def test_an_object_key_may_name_one_field_as_number_and_as_text() -> None:
    assert loads('{{1:1,"1":"a"}:2}') == {FrozenObject((("1", "a"),)): 2}


@pytest.mark.parametrize(
    "text",
    ["{'a':1}", "{a:[" + "1," * 50 + "]}", '{"a":{"$ref":"$.b"},"b":1}', '{a:{"$ref":"$"}}'],
)
def test_input_for_the_tolerant_reader_has_its_own_limit(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"above the limit of {len(text) - 1}"):
        loads(text, tolerant_limit_bytes=len(text) - 1)
    assert loads(' {"a":[' + "1," * 500 + '"\t"]}', tolerant_limit_bytes=10) is not None


@pytest.mark.parametrize("opening", ["[", '{"a":', "{a:", "[{'a':"])
def test_depth_is_bounded(opening: str) -> None:
    levels = MAX_DEPTH // sum(opening.count(char) for char in "[{")
    closing = "".join({"[": "]", "{": "}"}[c] for c in reversed(opening) if c in "[{")
    assert loads(opening * levels + "1" + closing * levels) is not None
    for many in (levels + 1, 10 * levels, 20_000):
        with pytest.raises(RemoteProtocolError, match="deeper"):
            loads(opening * many + "1" + closing * many)
        with pytest.raises(RemoteProtocolError):
            loads(opening * many)


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    value = {"a": "[" * 100, "b": ["]{" * 50]}
    assert loads(json.dumps(value)) == value


def test_writing_is_bounded_too() -> None:
    value: object = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert loads(dumps(value)) == value
    for outer in ([value], {"a": value}):
        with pytest.raises(LocalProtocolError, match="deeper"):
            dumps(outer)
    circle: list = []
    circle.append(circle)
    with pytest.raises(LocalProtocolError, match="deeper"):
        dumps(circle)


def test_text_is_escaped_as_fastjson_does() -> None:
    assert dumps('"\\/\b\t\n\f\r\x01\x0b\x7f\u2028é') == (
        '"\\"\\\\/\\b\\t\\n\\f\\r\\u0001\\u000B\\u007F\\u2028é"'
    )
    assert dump_bytes({"a": "\ud800"}) == b'{"a":"?"}'


def test_standard_form_is_ascii_with_sorted_string_keys() -> None:
    value = {"b": {1: "é/😀", 0: None}, "a": [2]}
    assert dumps(value, standard=True) == '{"a":[2],"b":{"1":"\\u00E9\\/\\uD83D\\uDE00"}}'


def test_null_fields_are_left_out_and_null_elements_written() -> None:
    assert dumps({"a": None, "b": [None, float("nan"), float("inf"), 1.0]}) == (
        '{"b":[null,null,null,1.0]}'
    )


def test_lists_are_inline_except_lines_and_those_under_bare_keys() -> None:
    assert dumps({"a": [1, {"b": 2}]}, pretty=True) == '{\n\t"a":[1,{\n\t\t"b":2\n\t}]\n}'
    assert dumps({"a": Lines([1, 2])}, pretty=True) == '{\n\t"a":[\n\t\t1,\n\t\t2\n\t]\n}'
    assert dumps({0: [1]}, pretty=True) == "{0:[\n\t\t1\n\t]\n}"
    assert dumps({"a": [], "b": {}}, pretty=True) == '{\n\t"a":[],\n\t"b":{}\n}'
    assert dumps({"a": Lines([1, 2])}) == '{"a":[1,2]}'
    assert dumps([(1,), frozenset({2})]) == "[[1],[2]]"


def test_values_of_other_types_are_our_error() -> None:
    with pytest.raises(LocalProtocolError, match="object has no JSON form"):
        dumps({"a": object()})


@pytest.mark.parametrize("name", ["broker-namesrv", "mqadmin-4.9.8", "mqadmin-5.3.3"])
def test_bytes_sent_by_java_are_written_back_unchanged(golden, name: str) -> None:
    counted = 0
    with gzip.open(golden / "frames" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            frame = bytes.fromhex(json.loads(line)["hex"])
            header_end = 8 + int.from_bytes(frame[5:8], "big")
            parts = [frame[header_end:]]
            if frame[4] == 0:  # the header is JSON too
                parts.append(frame[8:header_end])
            for text in parts:
                if text[:1] == b"{":
                    assert dump_bytes(loads(text)) == text
                    counted += 1
    assert counted > 5
