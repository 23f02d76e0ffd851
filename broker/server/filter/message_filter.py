"""Compiled subscription filters, cached by expression.

A tag filter tests the 64-bit tags code of a ConsumeQueue unit, an SQL92 filter the property
string of the record. Each pull carries its filter as text, so compiled filters are cached.

**Source:** RocketMQ ExpressionMessageFilter, ConsumerFilterManager.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from broker.common.subscription import (
    EXPRESSION_SQL92,
    SUB_ALL,
    SubscriptionData,
    build_subscription,
    is_tag_type,
)
from broker.errors import RemoteProtocolError
from broker.message.properties import decode_properties
from broker.remoting.budget import MemoryBudget
from broker.store.format.consumequeue import ConsumeQueueExtUnit

MAX_EXPRESSION_CHARS: Final = 16 * 1024
"""Longest expression. Compiling runs on the event loop and takes about 10 ms at this length."""

MATCHER_CACHE_BYTES: Final = 16 * 1024 * 1024
"""Memory limit of the cache; the least recently used filter is evicted first."""

ENTRY_BYTES: Final = 512  # one cache entry without the text of the expression
MATCHER_BYTES: Final = 512  # one filter without tags
TAG_BYTES: Final = 128  # one tag in a compiled filter
SQL_BYTES_PER_CHAR: Final = 64  # in a compiled SQL92 expression


class Matcher(msgspec.Struct, frozen=True):
    """A compiled filter.

    ``tags`` tests the tags code of a ConsumeQueue unit, ``properties`` the raw property string of a
    record, ``ext`` the extension unit, which may exclude a message before its record is read; None
    accepts everything. ``held_bytes`` is an estimate of its memory.
    """

    tags: Callable[[int], bool] | None = None
    properties: Callable[[bytes], bool] | None = None
    ext: Callable[[ConsumeQueueExtUnit], bool] | None = None
    held_bytes: int = 0


EVERYTHING: Final = Matcher()

Key = tuple[str, str]


class MatcherCache:
    """(expression type, expression) → compiled filter, limited in bytes."""

    def __init__(self, limit_bytes: int = MATCHER_CACHE_BYTES) -> None:
        self._known: OrderedDict[Key, Matcher] = OrderedDict()
        self._memory: MemoryBudget[Key] = MemoryBudget(limit_bytes, limit_bytes)

    @property
    def held_bytes(self) -> int:
        """The memory of the cached filters in bytes."""
        return self._memory.total_bytes

    def get(self, expression_type: str, expression: str) -> Matcher:
        """Return the filter of an expression; RemoteProtocolError if it does not compile."""
        key = (expression_type, expression)
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
            return found
        check_expression(expression)
        found = compile_filter(build_subscription("", expression, expression_type))
        memory = self._memory
        memory.charge(key, ENTRY_BYTES + 4 * len(expression) + found.held_bytes)
        self._known[key] = found
        while memory.total_bytes > memory.total_limit_bytes:
            oldest, _ = self._known.popitem(last=False)
            memory.forget(oldest)
        return found


def check_expression(expression: str) -> None:
    """Raise RemoteProtocolError if an expression is too long."""
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise RemoteProtocolError(
            f"an expression of {len(expression)} characters is above the limit of "
            f"{MAX_EXPRESSION_CHARS}"
        )


def compile_filter(data: SubscriptionData) -> Matcher:
    """Return the filter of a subscription; RemoteProtocolError if its expression is invalid.

    An expression of blank tags matches nothing.
    """
    check_expression(data.sub_string)
    if is_tag_type(data.expression_type):
        if data.sub_string in ("", SUB_ALL):
            return EVERYTHING
        held = MATCHER_BYTES + TAG_BYTES * len(data.code_set)
        return Matcher(tags=data.code_set.__contains__, held_bytes=held)
    if data.expression_type != EXPRESSION_SQL92:
        raise RemoteProtocolError(
            f"expression type {data.expression_type!r:.80} is unknown", "TAG and SQL92 are known"
        )
    held = MATCHER_BYTES + SQL_BYTES_PER_CHAR * len(data.sub_string)
    return Matcher(properties=_compile_sql(data.sub_string), held_bytes=held)


def _compile_sql(expression: str) -> Callable[[bytes], bool]:
    # Imported on the first SQL92 subscription: most brokers never receive one.
    from broker.filter.sql92 import compile_sql

    evaluate = compile_sql(expression)

    def matches(raw: bytes) -> bool:
        return evaluate(decode_properties(raw)) is True

    return matches
