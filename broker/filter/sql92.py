"""SQL92 filters over message properties, compiled to closures with three truth values.

Precedence, lowest first (keywords in any case)::

    OR
    AND
    =  <>  IS NULL  IS NOT NULL
    >  >=  <  <=  [NOT] BETWEEN a AND b  [NOT] IN ('a', ...)
                  [NOT] CONTAINS 's'  [NOT] STARTSWITH 's'  [NOT] ENDSWITH 's'   (5.1.4)
    +  -  NOT                                                                    (prefix)
    'text'  12  12L  1.5  TRUE  FALSE  NULL  property  ( ... )

Every property is a string, converted to the type of the other operand. ``>``, ``>=``, ``<`` and
``<=`` between two properties require numbers on both sides. A property that is not a number where
one is required makes the whole expression unknown, like the exception in Java. Only TRUE matches.

Intentional differences to Java: all integers have 64 bits (Java compares with 32 bits if the
literal is small, so there ``3000000000`` is not greater than 5), and text after the end of the
expression is an error (Java ignores it, so it accepts ``a LIKE 'x'``, which never matches).

**Source:** RocketMQ SelectorParser, ComparisonExpression, UnaryExpression, LogicExpression,
ConstantExpression, MessageEvaluationContext.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from broker.common.java import INT64_MAX
from broker.errors import RemoteProtocolError

MAX_EXPRESSION_LENGTH = 65536  # characters; a heartbeat may contain many expressions
MAX_DEPTH = 64  # nesting levels: bounds the recursion of parsing and of each evaluation

Value = str | int | float | bool | None
Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]

_TOKEN = re.compile(
    r"""(?:[ \t\n\r\f]|--[^\n\r]*|/\*.*?\*/)*
    (?: (?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?
               |[0-9]+[eE][+-]?[0-9]+)
      | (?P<int>0|[1-9][0-9]*[lL]?)
      | (?P<text>'(?:[^']|'')*')
      | (?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
      | (?P<symbol><>|>=|<=|[=<>(),+-])
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS = frozenset(
    {
        "NOT",
        "AND",
        "OR",
        "BETWEEN",
        "IN",
        "TRUE",
        "FALSE",
        "NULL",
        "IS",
        "CONTAINS",
        "STARTSWITH",
        "ENDSWITH",
    }
)
_LONG = re.compile(r"[+-]?[0-9]{1,20}")
_DOUBLE = re.compile(
    r"[\x00-\x20]*([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))"
    r"[fFdD]?[\x00-\x20]*"
)

_OR, _AND, _EQUALITY, _COMPARISON, _PREFIX = 1, 2, 3, 4, 5
_BINDING = {
    "OR": _OR,
    "AND": _AND,
    "=": _EQUALITY,
    "<>": _EQUALITY,
    "IS": _EQUALITY,
    ">": _COMPARISON,
    ">=": _COMPARISON,
    "<": _COMPARISON,
    "<=": _COMPARISON,
    "NOT": _COMPARISON,
    "BETWEEN": _COMPARISON,
    "IN": _COMPARISON,
    "CONTAINS": _COMPARISON,
    "STARTSWITH": _COMPARISON,
    "ENDSWITH": _COMPARISON,
}

_CONSTANT, _PROPERTY, _BOOLEAN, _NUMBER = "constant", "property", "condition", "number"


class _IncomparableError(Exception):
    """A property is not a number where one is required: the expression is unknown."""


def compile_sql(text: str) -> Callable[[Properties], bool | None]:
    """Compile an expression to a function of the properties: True, False or None (unknown).

    The function never raises. Raises RemoteProtocolError, with the position, if the text is not a
    valid expression, is longer than MAX_EXPRESSION_LENGTH or nests deeper than MAX_DEPTH.
    """
    if len(text) > MAX_EXPRESSION_LENGTH:
        raise RemoteProtocolError(
            f"an SQL92 expression of {len(text)} characters, at most {MAX_EXPRESSION_LENGTH}"
        )
    parser = _Parser(text)
    root = parser.condition(parser.expression(_OR, 0))
    if parser.kind != "end":
        raise parser.error("an operator expected")
    evaluate = root.evaluate

    def matches(properties: Properties) -> bool | None:
        try:
            value = evaluate(properties)
        except _IncomparableError:
            return None
        return value if value is True or value is False else None

    return matches


class _Node(NamedTuple):
    kind: str
    evaluate: Evaluate
    height: int
    value: Value = None  # the value of a constant, or the name of a property


class _Parser:
    """A cursor over the tokens with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0  # start of the current token
        self.next_position = 0
        self.kind = ""
        self.token = ""
        self.advance()

    def error(self, cause: str, position: int | None = None) -> RemoteProtocolError:
        at = self.position if position is None else position
        near = self.text[at : at + 20]
        return RemoteProtocolError(
            f"SQL92 expression: {cause} at position {at}, near {near!r}", position=at
        )

    def advance(self) -> None:
        match = _TOKEN.match(self.text, self.next_position)
        if match is None or match.lastgroup is None:
            raise self.error("not a token", self.next_position)
        self.kind = match.lastgroup
        self.token = match[self.kind]
        self.position = match.start(self.kind)
        self.next_position = match.end()
        if self.kind == "name" and self.token.upper() in _KEYWORDS:
            self.kind = "keyword"
            self.token = self.token.upper()

    def accept(self, token: str) -> bool:
        if self.token == token and self.kind in ("keyword", "symbol"):
            self.advance()
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error(f"{token} expected")

    def string(self) -> str:
        if self.kind != "text":
            raise self.error("a string in single quotes expected")
        value = self.token[1:-1].replace("''", "'")
        self.advance()
        return value

    def checked(self, node: _Node) -> _Node:
        if node.height > MAX_DEPTH:
            raise self.error(f"nests deeper than {MAX_DEPTH} levels")
        return node

    def condition(self, node: _Node) -> _Node:
        """Return ``node`` as an operand that must be a truth value."""
        if node.kind == _PROPERTY:  # a string is not a boolean: false if present, else unknown
            get = node.evaluate
            return _Node(_BOOLEAN, lambda p: None if get(p) is None else False, node.height + 1)
        if node.kind == _BOOLEAN or (node.kind == _CONSTANT and not _is_plain(node.value)):
            return node
        raise self.error("the expression before has no truth value")

    # --- the Pratt loop ----------------------------------------------------------------------

    def expression(self, binding: int, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            raise self.error(f"nests deeper than {MAX_DEPTH} levels")
        left = self.prefix(depth)
        while self.kind in ("keyword", "symbol"):
            found = _BINDING.get(self.token, 0)
            if found < binding or not found:
                break
            left = self.checked(self.infix(left, found, depth))
        return left

    def prefix(self, depth: int) -> _Node:
        if self.accept("+"):
            return self.expression(_PREFIX, depth + 1)
        if self.accept("-"):
            return self.checked(_negate(self.expression(_PREFIX, depth + 1)))
        if self.accept("NOT"):
            return self.checked(_not(self.condition(self.expression(_PREFIX, depth + 1))))
        if self.accept("("):
            node = self.expression(_OR, depth + 1)
            self.expect(")")
            return node
        return self.primary()

    def primary(self) -> _Node:
        kind, token = self.kind, self.token
        if kind == "text":
            return _constant(self.string())
        if kind == "name":
            self.advance()
            return _Node(_PROPERTY, lambda p: p.get(token), 1, token)
        if kind == "keyword" and token in ("TRUE", "FALSE", "NULL"):
            self.advance()
            return _constant({"TRUE": True, "FALSE": False}.get(token))
        if kind == "int":
            digits = token.rstrip("lL")
            if len(digits) > 19 or int(digits) > INT64_MAX:
                raise self.error("an integer beyond 64 bits")
            self.advance()
            return _constant(int(digits))
        if kind == "float":
            number = float(token)
            if not 0 < number < float("inf"):
                raise self.error("a floating number out of range (0 and infinity are)")
            self.advance()
            return _constant(number)
        raise self.error("a value expected")

    def infix(self, left: _Node, binding: int, depth: int) -> _Node:
        token = self.token
        if binding in (_OR, _AND):
            return self.logic(token, left, binding, depth)
        self.advance()
        if token in ("=", "<>"):
            return self.equality(token, left, self.expression(_COMPARISON, depth + 1))
        if token == "IS":
            negative = self.accept("NOT")
            self.expect("NULL")
            return _is_null(left, negative)
        if token in _ORDER_TESTS:
            return self.order(token, left, self.expression(_PREFIX, depth + 1))
        negative = token == "NOT"
        if negative:
            token = self.token
            if token not in ("BETWEEN", "IN", *_TEXT_TESTS) or self.kind != "keyword":
                raise self.error("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH expected")
            self.advance()
        if token == "BETWEEN":
            return self.between(left, negative, depth)
        if token == "IN":
            return self.membership(left, negative)
        return _text_test(left, _TEXT_TESTS[token], self.string(), negative)

    def logic(self, token: str, left: _Node, binding: int, depth: int) -> _Node:
        """Compile a chain of one operator to one loop, so that its length adds no recursion."""
        operands = [self.condition(left)]
        while self.accept(token):
            operands.append(self.condition(self.expression(binding + 1, depth + 1)))
        return _logic(operands, token == "OR")

    def equality(self, token: str, left: _Node, right: _Node) -> _Node:
        for node in (left, right):
            if node.kind == _CONSTANT and node.value is None:
                raise self.error("NULL cannot be compared, use IS NULL")
        constants = left.kind == right.kind == _CONSTANT
        if constants and isinstance(left.value, bool) and not isinstance(right.value, bool):
            raise self.error("a truth value cannot be compared with that")
        node = _equal(left, right)
        return node if token == "=" else _not(node)

    def order(self, token: str, left: _Node, right: _Node) -> _Node:
        for node in (left, right):
            if node.kind == _BOOLEAN or (
                node.kind == _CONSTANT
                and (isinstance(node.value, bool) or not isinstance(node.value, (int, float)))
            ):
                raise self.error(f"only numbers can be compared with {token}")
        return _ordered(token, left, right)

    def between(self, left: _Node, negative: bool, depth: int) -> _Node:
        low = self.expression(_PREFIX, depth + 1)
        self.expect("AND")
        high = self.expression(_PREFIX, depth + 1)
        if low.kind == high.kind == _CONSTANT:
            if low.value is None or high.value is None:
                raise self.error("BETWEEN needs values that are not NULL")
            try:
                upside_down = _compare(high.value, low.value) < 0
            except _IncomparableError:
                upside_down = True
            if upside_down:
                raise self.error("BETWEEN needs the smaller value first")
        if negative:
            return _logic([self.order("<", left, low), self.order(">", left, high)], True)
        return _logic([self.order(">=", left, low), self.order("<=", left, high)], False)

    def membership(self, left: _Node, negative: bool) -> _Node:
        if left.kind != _PROPERTY:
            raise self.error("IN needs a property on its left")
        self.expect("(")
        words = {self.string()}
        while self.accept(","):
            words.add(self.string())
        self.expect(")")
        get, wanted = left.evaluate, frozenset(words)

        def test(properties: Properties) -> Value:
            value = get(properties)
            return None if value is None else (value in wanted) != negative

        return _Node(_BOOLEAN, test, left.height + 1)


# --- closures --------------------------------------------------------------------------------

_ORDER_TESTS: dict[str, Callable[[int], bool]] = {
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
}
_TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def _is_plain(value: Value) -> bool:
    """Whether a constant is neither TRUE, FALSE nor NULL."""
    return value is not None and not isinstance(value, bool)


def _constant(value: Value) -> _Node:
    return _Node(_CONSTANT, lambda _: value, 1, value)


def _negate(node: _Node) -> _Node:
    inner = node.evaluate

    def negate(properties: Properties) -> Value:
        value = inner(properties)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return -value
        return None  # properties are strings, which cannot be negated

    return _Node(_NUMBER, negate, node.height + 1)


def _not(node: _Node) -> _Node:
    inner = node.evaluate

    def negation(properties: Properties) -> Value:
        value = inner(properties)
        return None if value is None else not value

    return _Node(_BOOLEAN, negation, node.height + 1)


def _logic(operands: list[_Node], decisive: bool) -> _Node:
    """OR (``decisive`` True) or AND (False): unknown if no operand decides and one is unknown."""
    tests = tuple(node.evaluate for node in operands)

    def chain(properties: Properties) -> Value:
        unknown = False
        for test in tests:
            value = test(properties)
            if value is decisive:
                return decisive
            if value is None:
                unknown = True
        return None if unknown else not decisive

    return _Node(_BOOLEAN, chain, max(node.height for node in operands) + 1)


def _is_null(node: _Node, negative: bool) -> _Node:
    inner = node.evaluate

    def test(properties: Properties) -> Value:
        return (inner(properties) is None) != negative

    return _Node(_BOOLEAN, test, node.height + 1)


def _text_test(
    node: _Node, matches: Callable[[str, str], bool], word: str, negative: bool
) -> _Node:
    """CONTAINS, STARTSWITH, ENDSWITH: False for an absent value or empty word, also with NOT."""
    inner = node.evaluate

    def test(properties: Properties) -> Value:
        value = inner(properties)
        if not word or not isinstance(value, str):
            return False
        return matches(value, word) != negative

    return _Node(_BOOLEAN, test, node.height + 1)


def _equal(left: _Node, right: _Node) -> _Node:
    get_left, get_right = left.evaluate, right.evaluate

    def test(properties: Properties) -> Value:
        a, b = get_left(properties), get_right(properties)
        if a is None:
            return True if b is None else None
        if b is None:
            return False
        return _compare(a, b) == 0

    if left.kind == _PROPERTY and right.kind == _CONSTANT and isinstance(right.value, str):
        word = right.value

        def test_word(properties: Properties) -> Value:
            a = get_left(properties)
            return None if a is None else a == word

        return _Node(_BOOLEAN, test_word, 2)
    return _Node(_BOOLEAN, test, max(left.height, right.height) + 1)


def _ordered(token: str, left: _Node, right: _Node) -> _Node:
    accepts = _ORDER_TESTS[token]
    get_left, get_right = left.evaluate, right.evaluate

    def test(properties: Properties) -> Value:
        a, b = get_left(properties), get_right(properties)
        if a is None or b is None:
            return None
        if isinstance(a, str) and isinstance(b, str):
            a, b = _to_double(a), _to_double(b)
        return accepts(_compare(a, b))

    return _Node(_BOOLEAN, test, max(left.height, right.height) + 1)


def _to_long(text: str) -> int:
    """``Long.valueOf``."""
    if _LONG.fullmatch(text):
        number = int(text)
        if -INT64_MAX - 1 <= number <= INT64_MAX:
            return number
    raise _IncomparableError


def _to_double(text: str) -> float:
    """``Double.valueOf`` (without hexadecimal forms)."""
    match = _DOUBLE.fullmatch(text)
    if match is None:
        raise _IncomparableError
    return float(match[1])


def _compare(a: str | int | float | bool, b: str | int | float | bool) -> int:
    """Java's ``compareTo`` after Java's conversions: -1, 0, 1.

    Different types that do not convert are "less", in both directions.
    """
    if isinstance(a, bool):
        if isinstance(b, str):
            raise _IncomparableError  # Java's cast fails here
        if not isinstance(b, bool):
            return -1
    elif isinstance(a, (int, float)):
        if isinstance(b, bool):
            return -1
        if isinstance(b, str):
            b = _to_double(b) if isinstance(a, float) else _to_long(b)
        if isinstance(a, float) or isinstance(b, float):
            return _compare_doubles(float(a), float(b))
    elif isinstance(b, bool):
        a = a.lower() == "true"
    elif isinstance(b, float):
        return _compare_doubles(_to_double(a), b)
    elif isinstance(b, int):
        a = _to_long(a)
    else:
        return (a > b) - (a < b)
    return (a > b) - (a < b)


def _compare_doubles(a: float, b: float) -> int:
    """``Double.compareTo``: NaN is greater than any other value and equal to itself."""
    if a != a or b != b:
        return (a != a) - (b != b)
    return (a > b) - (a < b)
