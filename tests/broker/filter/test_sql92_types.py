"""SQL92: operators over every pair of types, and laws of three-valued logic.

**Source:** RocketMQ ComparisonExpression#compare, LogicExpression.
"""

import itertools
import random
from collections.abc import Mapping

import pytest

from broker.errors import RemoteProtocolError
from broker.filter.sql92 import MAX_DEPTH, MAX_EXPRESSION_LENGTH, compile_sql

Outcome = bool | None
ATOMS: dict[str, Outcome] = {"TRUE": True, "FALSE": False, "NULL": None}
PAIRS = list(itertools.product(ATOMS, repeat=2))


def evaluate(text: str, **properties: str) -> Outcome:
    return compile_sql(text)(properties)


# ---- logic


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_and_or_follow_the_tables_of_three_values(a: str, b: str) -> None:
    x, y = ATOMS[a], ATOMS[b]
    both = False if x is False or y is False else None if None in (x, y) else True
    either = True if x is True or y is True else None if None in (x, y) else False
    assert evaluate(f"{a} AND {b}") is both
    assert evaluate(f"{a} OR {b}") is either


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_de_morgans_laws_hold_with_unknown_values(a: str, b: str) -> None:
    assert evaluate(f"NOT ({a} AND {b})") is evaluate(f"(NOT {a}) OR (NOT {b})")
    assert evaluate(f"NOT ({a} OR {b})") is evaluate(f"(NOT {a}) AND (NOT {b})")


@pytest.mark.parametrize(("a", "b", "c"), list(itertools.product(ATOMS, repeat=3)))
def test_and_binds_closer_than_or(a: str, b: str, c: str) -> None:
    assert evaluate(f"{a} OR {b} AND {c}") is evaluate(f"{a} OR ({b} AND {c})")
    assert evaluate(f"{a} AND {b} OR {c}") is evaluate(f"({a} AND {b}) OR {c}")


@pytest.mark.parametrize("atom", ATOMS)
def test_a_double_negation_changes_nothing(atom: str) -> None:
    assert evaluate(f"NOT NOT {atom}") is ATOMS[atom]


# ---- comparisons of a property with each type of constant

PROPERTY_VALUES = (None, "", "0", "5", "-5", "+5", "05", "5.0", "5e0", "x", "true", "NaN", " 5")
LONGS: Mapping[str, int] = {"0": 0, "5": 5, "-5": -5, "+5": 5, "05": 5}
DOUBLES: Mapping[str, float] = {**LONGS, "5.0": 5.0, "5e0": 5.0, " 5": 5.0}


@pytest.mark.parametrize("value", PROPERTY_VALUES)
def test_an_integer_compares_with_integers_only(value: str | None) -> None:
    properties = {} if value is None else {"a": value}
    number = None if value is None else LONGS.get(value)
    for operator, expected in (
        ("=", None if number is None else number == 5),
        ("<>", None if number is None else number != 5),
        (">", None if number is None else number > 5),
        (">=", None if number is None else number >= 5),
        ("<", None if number is None else number < 5),
        ("<=", None if number is None else number <= 5),
    ):
        assert compile_sql(f"a {operator} 5")(properties) is expected, operator


@pytest.mark.parametrize("value", [one for one in PROPERTY_VALUES if one != "NaN"])
def test_a_decimal_compares_with_any_number(value: str | None) -> None:
    properties = {} if value is None else {"a": value}
    number = None if value is None else DOUBLES.get(value)
    for operator, expected in (
        ("=", None if number is None else number == 5.5),
        ("<>", None if number is None else number != 5.5),
        (">", None if number is None else number > 5.5),
        ("<=", None if number is None else number <= 5.5),
    ):
        assert compile_sql(f"a {operator} 5.5")(properties) is expected, operator


@pytest.mark.parametrize("value", PROPERTY_VALUES)
def test_a_text_compares_exactly(value: str | None) -> None:
    properties = {} if value is None else {"a": value}
    for word in ("5", "x", "", " 5"):
        expected = None if value is None else value == word
        assert compile_sql(f"a = '{word}'")(properties) is expected
        reverse = False if value is None else expected  # Java: unknown only if the left is null
        assert compile_sql(f"'{word}' = a")(properties) is reverse
        assert compile_sql(f"a IN ('{word}', 'other')")(properties) is expected


@pytest.mark.parametrize("value", PROPERTY_VALUES)
def test_presence_does_not_depend_on_the_value(value: str | None) -> None:
    properties = {} if value is None else {"a": value}
    assert compile_sql("a IS NULL")(properties) is (value is None)
    assert compile_sql("a IS NOT NULL")(properties) is (value is not None)


@pytest.mark.parametrize("number", [0, 1, -1, 2**31, -(2**31), 2**63 - 1, -(2**63)])
def test_integers_have_64_bits_on_both_sides(number: int) -> None:
    assert evaluate("a = b", a=str(number), b=str(number)) is True
    assert evaluate("a <= 9223372036854775807", a=str(number)) is True
    assert evaluate("a > 9223372036854775807", a=str(number)) is False
    for beyond in (2**63, -(2**63) - 1):
        assert evaluate("a > 0", a=str(beyond)) is None


def test_not_a_number_is_above_every_number() -> None:
    """As Double.compareTo: NaN is the largest value and equal to itself."""
    for constant in ("0.5", "1e300"):
        assert evaluate(f"a > {constant}", a="NaN") is True
        assert evaluate(f"a = {constant}", a="NaN") is False
    assert evaluate("a >= b", a="NaN", b="NaN") is True
    assert evaluate("a > b", a="NaN", b="Infinity") is True
    assert evaluate("a < b", a="-Infinity", b="-1e300") is True


@pytest.mark.parametrize("low", [-2, 0, 3])
@pytest.mark.parametrize("width", [0, 1, 5])
def test_between_includes_both_ends_and_not_between_is_its_opposite(low: int, width: int) -> None:
    high = low + width
    for value in range(low - 2, high + 3):
        inside = evaluate(f"a BETWEEN {low} AND {high}", a=str(value))
        assert inside is (low <= value <= high)
        assert evaluate(f"a NOT BETWEEN {low} AND {high}", a=str(value)) is not inside


@pytest.mark.parametrize(
    ("operator", "expected"),
    [("CONTAINS", (True, True, True, False)), ("STARTSWITH", (True, False, False, False)),
     ("ENDSWITH", (False, False, True, False))],
)  # fmt: skip
def test_text_operators_find_their_word_in_its_place(
    operator: str, expected: tuple[bool, ...]
) -> None:
    values = ("abXX", "XabX", "XXab", "XaXb")
    found = tuple(evaluate(f"a {operator} 'ab'", a=value) for value in values)
    assert found == expected
    opposite = tuple(evaluate(f"a NOT {operator} 'ab'", a=value) for value in values)
    assert opposite == tuple(not one for one in expected)
    assert evaluate(f"a {operator} 'ab'") is evaluate(f"a NOT {operator} 'ab'") is False


# ---- the text


def test_keywords_have_any_case_and_names_have_theirs() -> None:
    assert evaluate("a is not null and A is null", a="x") is True
    assert evaluate("a Is NoT nUlL", a="x") is True
    assert evaluate("nOt (a = 'x')", a="x") is False


@pytest.mark.parametrize("blank", [" ", "\t", "\n", "\r\n", "\f", "/* */", "-- x\n", "/* ' */"])
def test_blanks_and_comments_separate_tokens(blank: str) -> None:
    text = blank.join(["", "a", ">", "5", "AND", "b", "=", "'x y'", ""])
    assert evaluate(text, a="6", b="x y") is True


def test_a_quote_in_a_text_is_doubled(rng: random.Random) -> None:
    for _ in range(50):
        word = "".join(rng.choices("ab'\" \\\n消-", k=rng.randrange(8)))
        quoted = word.replace("'", "''")
        assert evaluate(f"a = '{quoted}'", a=word) is True
        assert evaluate(f"a = '{quoted}'", a=word + "x") is False


def test_the_longest_and_the_deepest_expressions_are_accepted() -> None:
    word = "x" * (MAX_EXPRESSION_LENGTH - len("a = ''"))
    assert evaluate(f"a = '{word}'", a=word) is True
    with pytest.raises(RemoteProtocolError, match="at most"):
        compile_sql(f"a = '{word}x'")
    depth = MAX_DEPTH - 1
    assert evaluate("(" * depth + "a = 1" + ")" * depth, a="1") is True


def test_a_compiled_expression_can_be_used_again_and_from_other_messages() -> None:
    matches = compile_sql("a > 5 AND b IN ('x', 'y') OR c IS NULL")
    for _ in range(2):
        assert matches({"a": "6", "b": "y", "c": "z"}) is True
        assert matches({"a": "5", "b": "y", "c": "z"}) is False
        assert matches({}) is True
        assert matches({"c": "z"}) is None
