from mqadmin.command.java.pretty import compact_json, pretty_json


def test_objects_are_indented_with_tabs_and_integer_keys_are_not_quoted() -> None:
    value = {"a": {0: "x", 1: "y"}, "b": [{"c": 1}], "e": {}, "l": []}
    assert pretty_json(value).splitlines() == [
        *("{", '\t"a":{0:"x",1:"y"', "\t},", '\t"b":[', "\t\t{", '\t\t\t"c":1', "\t\t}", "\t],"),
        *('\t"e":{},', '\t"l":[]', "}"),
    ]


def test_text_is_quoted_as_json() -> None:
    assert pretty_json('é"') == '"é\\""'
    assert compact_json({"a": [1, None, True]}) == '{"a":[1,null,true]}'
