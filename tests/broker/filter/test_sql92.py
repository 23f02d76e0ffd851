import random
from collections.abc import Mapping

import pytest

from broker.errors import RemoteProtocolError
from broker.filter.sql92 import MAX_DEPTH, MAX_EXPRESSION_LENGTH, compile_sql

T, F, U = True, False, None


@pytest.mark.parametrize(
    ("text", "properties", "outcome"),
    [
        ("a = 'x'", {"a": "x"}, T),
        ("a = 'x'", {"a": "y"}, F),
        ("a = 'x'", {}, U),
        ("'x' = a", {"a": "x"}, T),
        ("a <> 'x'", {"a": "y"}, T),
        ("a <> 'x'", {}, U),
        ("a = 5", {"a": "5"}, T),
        ("a = 5", {"a": "+5"}, T),
        ("a = 5", {"a": "5.0"}, U),
        ("a = 5", {"a": "five"}, U),
        ("a = 5.0", {"a": "5"}, T),
        ("a = 0.5e1", {"a": " 5d "}, T),
        ("a = TRUE", {"a": "tRuE"}, T),
        ("a = false", {"a": "no"}, T),
        ("TRUE = a", {"a": "true"}, U),
        ("a = b", {}, T),
        ("a = b", {"a": "1"}, F),
        ("a = b", {"b": "1"}, U),
        ("a = b", {"a": "1", "b": "1"}, T),
        ("a > 5", {"a": "6"}, T),
        ("a > 5", {"a": "5"}, F),
        ("a > 5", {"a": "3000000000"}, T),
        ("a > 5", {"a": "99999999999999999999"}, U),
        ("5 < a", {"a": "6"}, T),
        ("a >= -5", {"a": "-5"}, T),
        ("a < 1.5", {"a": "1"}, T),
        ("a < 1.5", {"a": "NaN"}, F),
        ("a > 1.5", {"a": "NaN"}, T),
        ("a > b", {"a": "10", "b": "9"}, T),
        ("a > b", {"a": "x", "b": "9"}, U),
        ("3 > 2", {}, T),
        ("3 > 2.5", {}, T),
        ("a BETWEEN 1 AND 10", {"a": "10"}, T),
        ("a between 1 and 10", {"a": "11"}, F),
        ("a NOT BETWEEN 1 AND 10", {"a": "11"}, T),
        ("a BETWEEN b AND 10", {"a": "5"}, U),
        ("a BETWEEN -5 AND +5", {"a": "0"}, T),
        ("a IN ('x', 'y''z')", {"a": "y'z"}, T),
        ("a IN ('x')", {"a": "y"}, F),
        ("a IN ('x')", {}, U),
        ("a NOT IN ('x')", {"a": "y"}, T),
        ("a NOT IN ('x')", {}, U),
        ("a IS NULL", {}, T),
        ("a IS NULL", {"a": "x"}, F),
        ("a is not null", {"a": "x"}, T),
        ("a is not null", {}, F),
        ("(a > 1) IS NULL", {}, T),
        ("a CONTAINS 'b'", {"a": "abc"}, T),
        ("a CONTAINS 'b'", {}, F),
        ("a NOT CONTAINS 'b'", {"a": "axc"}, T),
        ("a NOT CONTAINS 'b'", {}, F),
        ("a CONTAINS ''", {"a": "x"}, F),
        ("a NOT CONTAINS ''", {"a": "x"}, F),
        ("a STARTSWITH 'ab'", {"a": "abc"}, T),
        ("a not endswith 'bc'", {"a": "abc"}, F),
        ("a ENDSWITH 'bc'", {"a": "abc"}, T),
        ("a", {"a": "true"}, F),
        ("a", {}, U),
        ("NOT a", {"a": "x"}, T),
        ("NOT a", {}, U),
        ("NOT a = 'x'", {"a": "x"}, U),
        ("NOT (a = 'x')", {"a": "x"}, F),
        ("NOT a = 1", {"a": "x"}, F),
        ("TRUE", {}, T),
        ("FALSE OR TRUE", {}, T),
        ("NULL", {}, U),
        ("NULL OR TRUE", {}, T),
        ("NULL AND TRUE", {}, U),
        ("NULL AND FALSE", {}, F),
        ("(a > 1) = TRUE", {"a": "2"}, T),
        ("(a > 1) = 5", {"a": "2"}, F),
        ("-a > 1", {"a": "-2"}, U),
        ("- -5 > 4", {}, T),
        ("a = 1 OR b = 2 AND c = 3", {"a": "1"}, T),
        ("(a = 1 OR b = 2) AND c = 3", {"a": "1"}, U),
        ("a = 1 OR b > 2", {"a": "1", "b": "junk"}, T),
        ("b > 2 OR a = 1", {"a": "1", "b": "junk"}, U),
        ("a=1--comment\nAND/* x */b=2", {"a": "1", "b": "2"}, T),
        ("$x_1 = 9223372036854775807", {"$x_1": "9223372036854775807"}, T),
        ("a = 12L", {"a": "12"}, T),
        ("a = .5", {"a": "0.5"}, T),
        ("a = 'it''s'", {"a": "it's"}, T),
        ("a = '消息'", {"a": "消息"}, T),
        ("a > 1 = TRUE", {"a": "2"}, T),
    ],
)
def test_outcome(text: str, properties: Mapping[str, str], outcome: bool | None) -> None:
    assert compile_sql(text)(properties) is outcome


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "'x'",
        "-a",
        "a >",
        "a > 'x'",
        "a > TRUE",
        "a > (b = 1)",
        "(b = 1) < 5",
        "a = NULL",
        "NULL <> a",
        "TRUE = 1",
        "a BETWEEN 5 AND 1",
        "a BETWEEN NULL AND 1",
        "a BETWEEN 'x' AND 'y'",
        "a BETWEEN 1 AND 'x'",
        "a BETWEEN 1",
        "a LIKE 'x'",
        "a IN ()",
        "a IN (1)",
        "a IN ('x'",
        "5 IN ('x')",
        "a NOT 'x'",
        "a NOT",
        "a IS",
        "a IS 5",
        "a CONTAINS 5",
        "a == 1",
        "a != 1",
        "a AND",
        "a b",
        "(a",
        "a)",
        "a = 'x",
        'a = "x"',
        "a = 0.0",
        "a = 1e999",
        "a = 9223372036854775808",
        "a = 007",
        "a = 1 # x",
        "/* open",
        "and",
        "a-b = 1",
        "a + 1 > 2",
        "é = 1",
    ],
)
def test_a_syntax_error_names_the_position(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=r"SQL92 expression: .* position") as caught:
        compile_sql(text)
    assert 0 <= caught.value.position <= len(text)


def test_length_and_depth_are_bounded() -> None:
    with pytest.raises(RemoteProtocolError, match="characters"):
        compile_sql("a" * (MAX_EXPRESSION_LENGTH + 1))
    for opening, closing in (("(", ")"), ("NOT ", ""), ("NOT (", ")"), ("- ", "")):
        for depth in (MAX_DEPTH + 1, 10_000):
            with pytest.raises(RemoteProtocolError, match=r"deeper|SQL92"):
                compile_sql(opening * depth + "TRUE" + closing * depth)
    with pytest.raises(RemoteProtocolError, match="deeper"):
        compile_sql("a = " * 100 + "b")
    assert compile_sql("(" * (MAX_DEPTH - 1) + "TRUE" + ")" * (MAX_DEPTH - 1))({}) is True


def test_long_chains_do_not_count_as_depth() -> None:
    matches = compile_sql(" OR ".join(f"a = {n}" for n in range(3000)))
    assert matches({"a": "2999"}) is True
    assert matches({"a": "3000"}) is False
    assert compile_sql(" AND ".join(["TRUE"] * 5000))({}) is True


def test_every_cut_and_flip_is_a_function_or_a_protocol_error(every_cut, every_flip) -> None:
    text = b"a > 5 AND b='x' OR NOT (c IN ('y','z')) AND d BETWEEN 1 AND 2.5e1 OR e IS NOT NULL"

    def decode(data: bytes) -> object:
        return compile_sql(data.decode("latin-1"))({"a": "6", "b": "x", "c": "7", "d": "x"})

    assert 1 in every_cut(decode, text)
    assert every_flip(decode, text) > 100


# --- against a small evaluator that walks a tree of tuples --------------------------------------


class Wrong(Exception):
    """A property that is not a number where one is needed."""


def number_of(value: str, like: int | float) -> int | float:
    try:
        return int(value) if isinstance(like, int) else float(value)
    except ValueError:
        raise Wrong from None


def walk(tree: tuple, properties: Mapping[str, str]) -> bool | None:
    operator = tree[0]
    if operator in ("AND", "OR"):
        decisive = operator == "OR"
        seen_unknown = False
        for part in tree[1:]:
            outcome = walk(part, properties)
            if outcome is decisive:
                return decisive
            seen_unknown |= outcome is None
        return None if seen_unknown else not decisive
    if operator == "NOT":
        outcome = walk(tree[1], properties)
        return None if outcome is None else not outcome
    value = properties.get(tree[1])
    if operator in ("IS NULL", "IS NOT NULL"):
        return (value is None) == (operator == "IS NULL")
    if value is None:
        return None
    if operator in ("IN", "NOT IN"):
        return (value in tree[2]) == (operator == "IN")
    if operator in ("BETWEEN", "NOT BETWEEN"):
        low, high = tree[2], tree[3]
        inside = low <= number_of(value, low)
        if operator == "NOT BETWEEN" and not inside:
            return True
        if operator == "BETWEEN" and not inside:
            return False
        inside = number_of(value, high) <= high
        return inside == (operator == "BETWEEN")
    constant = tree[2]
    if isinstance(constant, str):
        return (value == constant) == (operator == "=")
    left = number_of(value, constant)
    return {
        "=": left == constant,
        "<>": left != constant,
        ">": left > constant,
        ">=": left >= constant,
        "<": left < constant,
        "<=": left <= constant,
    }[operator]


def constant_text(value: str | int | float) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def text_of(tree: tuple, rng: random.Random) -> str:
    def word(text: str) -> str:
        return text.lower() if rng.random() < 0.3 else text

    operator = tree[0]
    if operator in ("AND", "OR"):
        return "(" + f" {word(operator)} ".join(text_of(part, rng) for part in tree[1:]) + ")"
    if operator == "NOT":
        return f"{word('NOT')} ({text_of(tree[1], rng)})"
    if operator.startswith("IS"):
        return f"{tree[1]} {word(operator)}"
    if operator.endswith("IN"):
        return f"{tree[1]} {word(operator)} ({','.join(map(constant_text, tree[2]))})"
    if operator.endswith("BETWEEN"):
        return f"{tree[1]} {word(operator)} {tree[2]} {word('AND')} {tree[3]}"
    return f"{tree[1]}{operator}{constant_text(tree[2])}"


def random_tree(rng: random.Random, depth: int = 0) -> tuple:
    name = rng.choice("abc")
    kind = rng.randrange(8 if depth < 4 else 5)
    if kind == 0:
        return rng.choice(("IS NULL", "IS NOT NULL")), name
    if kind == 1:
        return rng.choice(("IN", "NOT IN")), name, tuple(rng.choices(("x", "1", "it's"), k=2))
    if kind == 2:
        low = rng.randint(0, 3)
        return rng.choice(("BETWEEN", "NOT BETWEEN")), name, low, low + rng.randint(0, 2)
    if kind == 3:
        return rng.choice(("=", "<>")), name, rng.choice(("x", "1", "it's", ""))
    if kind == 4:
        operator = rng.choice(("=", "<>", ">", ">=", "<", "<="))
        return operator, name, rng.choice((0, 1, 2, 0.5, 1.5))
    if kind == 5:
        return "NOT", random_tree(rng, depth + 1)
    parts = [random_tree(rng, depth + 1) for _ in range(rng.randint(2, 4))]
    return (rng.choice(("AND", "OR")), *parts)


def test_agrees_with_the_small_evaluator(rng) -> None:
    values = ("x", "0", "1", "2", "3", "1.5", "it's", None)
    decided = 0
    for _ in range(1500):
        tree = random_tree(rng)
        text = text_of(tree, rng)
        matches = compile_sql(text)
        for _ in range(4):
            chosen = {name: rng.choice(values) for name in "abc"}
            properties = {name: value for name, value in chosen.items() if value is not None}
            try:
                expected = walk(tree, properties)
            except Wrong:
                expected = None
            assert matches(properties) is expected, (text, properties)
            decided += expected is not None
    assert decided > 1000
