"""The tolerant JSON reader: each extension of fastjson, errors with their position, references."""

import json
import random

import pytest

from broker.common.encoding.java_json_reader import read_text, resolve_references
from broker.common.encoding.java_values import MAX_DEPTH, MAX_REF_NODES, FrozenObject
from broker.errors import RemoteProtocolError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # keys
        ("{a:1}", {"a": 1}),
        ("{$type:1,@x:2}", {"$type": 1, "@x": 2}),
        ("{1:2,-3:4}", {1: 2, -3: 4}),
        ("{'a':1}", {"a": 1}),
        ("{[1,2]:3}", {(1, 2): 3}),
        ('{{"a":1}:2}', {FrozenObject((("a", 1),)): 2}),
        # strings
        ("'it\"s'", 'it"s'),
        (r'"\x41\7\v\'"', "A\x07\v'"),
        (r'"\u00e9\F"', "é\f"),
        (r'"\ud83d\ude00"', "😀"),
        ('"a\nb\tc"', "a\nb\tc"),
        # numbers
        ("[1L,2S,3B,4F,5D]", [1, 2, 3, 4, 5]),
        ("[-0.5,1e3,2.,1.5E-2]", [-0.5, 1000.0, 2.0, 0.015]),
        # words
        ("[true,false,null,NaN,undefined]", [True, False, None, None, None]),
        # between
        ("/* a */ [1 /* b */ , // c\n 2]", [1, 2]),
        ("[,,1,,2,]", [1, 2]),
        ("{,a:1,,b:2,}", {"a": 1, "b": 2}),
        ("\b\f [ ] ", []),
    ],
)
def test_each_extension_of_fastjson_is_read(text: str, value: object) -> None:
    assert read_text(text) == value


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("[1 2]", 3),
        ("{a 1}", 3),
        ("{a:1 b:2}", 5),
        ("{,:1}", 2),
        ("[1]]", 3),
        ('"abc', 0),
        (r'"a\q"', 2),
        (r'"\u00g0"', 1),
        (r'"\x4"', 1),
        ("truth", 5),
        ("-", 0),
        ("[1", 2),
        ("{", 1),
        ("&", 0),
    ],
)
def test_an_error_has_its_position(text: str, position: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"at position {position}\\b") as caught:
        read_text(text)
    assert caught.value.position == position


def test_a_number_has_at_most_1000_digits() -> None:
    assert read_text("9" * 1000) == int("9" * 1000)
    with pytest.raises(RemoteProtocolError, match="too long"):
        read_text("9" * 1001)


def test_depth_is_bounded_in_values_and_keys() -> None:
    assert read_text("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    for text in ("[" * (MAX_DEPTH + 1), "{[" * MAX_DEPTH, "{a:" * (MAX_DEPTH + 1)):
        with pytest.raises(RemoteProtocolError, match="deeper"):
            read_text(text)


def test_standard_json_is_read_as_by_the_standard_parser(rng: random.Random) -> None:
    def value(depth: int) -> object:
        kind = rng.randrange(6 if depth < 4 else 4)
        if kind == 0:
            return rng.choice([True, False, None])
        if kind == 1:
            return rng.randrange(-(10**12), 10**12)
        if kind == 2:
            return rng.randrange(-1000, 1000) / 8
        if kind == 3:
            return "".join(rng.choices('ab"\\/\n\tü😀\x00 {}[],:', k=rng.randrange(6)))
        if kind == 4:
            return [value(depth + 1) for _ in range(rng.randrange(4))]
        return {f"k{number}": value(depth + 1) for number in range(rng.randrange(4))}

    for _ in range(300):
        made = value(0)
        for ascii_only in (True, False):
            assert read_text(json.dumps(made, ensure_ascii=ascii_only)) == made


# ---- references


def resolved(text: str) -> object:
    return resolve_references(read_text(text), len(text))


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("$", None),
        ("$.a", 7),
        ("$.list[1]", "y"),
        ("$.list[9]", None),
        ("$.none", None),
        ("$.a.b", None),
        ("$.map.5", "five"),
        ("$.map[5]", "five"),
        (r"$.map.x\\.y", "dotted"),
        ("a", None),
        ("$x", None),
    ],
)
def test_a_reference_is_replaced_by_its_target_or_null(path: str, target: object) -> None:
    text = '{"a":7,"list":["x","y"],"map":{5:"five","x.y":"dotted"},"ref":{"$ref":"%s"}}'
    if path == "$":
        with pytest.raises(RemoteProtocolError, match="circle"):
            resolved(text % path)
        return
    assert resolved(text % path)["ref"] == target


def test_a_queue_key_is_found_by_its_java_text_and_the_first_one_as_null() -> None:
    key = '{"brokerName":"b","queueId":3,"topic":"T"}'
    name = "MessageQueue [topic=T, brokerName=b, queueId=3]"
    text = '{"t":{' + key + ':{"x":1}},"r":{"$ref":"$.t.' + name.replace("[", "\\\\[") + '"}}'
    assert resolved(text)["r"] == {"x": 1}
    by_null = '{"t":{' + key + ':1},"r":{"$ref":"$.t.null"}}'
    assert dict(resolved(by_null)["r"]) == {"brokerName": "b", "queueId": 3, "topic": "T"}


def test_references_to_references_are_followed_and_circles_refused() -> None:
    chained = '{"a":{"$ref":"$.b"},"b":{"$ref":"$.c"},"c":[1]}'
    assert resolved(chained) == {"a": [1], "b": [1], "c": [1]}
    for text in ('{"a":{"$ref":"$.a"}}', '{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}'):
        with pytest.raises(RemoteProtocolError, match="circle"):
            resolved(text)


def test_an_object_with_more_fields_is_not_a_reference() -> None:
    assert resolved('{"a":{"$ref":"$.b","x":1},"b":2}')["a"] == {"$ref": "$.b", "x": 1}


def test_expansion_is_bounded_by_the_length_of_the_text() -> None:
    """Each level doubles the values: 40 levels would be 10^12."""
    levels = ",".join(
        f'"l{n}":[{{"$ref":"$.l{n + 1}"}},{{"$ref":"$.l{n + 1}"}}]' for n in range(40)
    )
    text = "{" + levels + ',"l40":[1]}'
    with pytest.raises(RemoteProtocolError, match=f"more than {len(text) + MAX_REF_NODES}"):
        resolved(text)


def test_a_result_is_a_copy() -> None:
    root = read_text('{"a":[1],"b":{"$ref":"$.a"}}')
    found = resolve_references(root, 100)
    found["b"].append(2)
    assert found["a"] == [1]
    assert root["a"] == [1]
