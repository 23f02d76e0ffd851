"""Compiled subscription filters, remembered by their expression.

A tag filter looks at the 64-bit tag code of a queue entry; an SQL92 filter at the property
string of the record. Pulls name their filter as text each time, so compiled forms are kept.

**Source:** RocketMQ ExpressionMessageFilter, ConsumerFilterManager.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from broker.common.subscription import SubscriptionData, build_subscription, is_tag_type

MAX_MATCHERS: Final = 10_000  # compiled filters kept; the table is emptied when it is full


class Matcher(msgspec.Struct, frozen=True):
    """A compiled filter: ``tags`` on the tag code of a queue entry, ``properties`` on the raw
    property string of a record; None where that stage accepts everything.
    """

    tags: Callable[[int], bool] | None = None
    properties: Callable[[bytes], bool] | None = None


EVERYTHING: Final = Matcher()


class MatcherCache:
    """(expression type, expression) → compiled filter."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Matcher] = {}

    def get(self, expression_type: str, expression: str) -> Matcher:
        """The filter of an expression; RemoteProtocolError when it does not compile."""
        found = self._known.get((expression_type, expression))
        if found is None:
            found = compile_filter(build_subscription("", expression, expression_type))
            if len(self._known) >= MAX_MATCHERS:
                self._known.clear()
            self._known[expression_type, expression] = found
        return found


def compile_filter(data: SubscriptionData) -> Matcher:
    """The filter of a subscription; RemoteProtocolError when an SQL92 expression is wrong."""
    if is_tag_type(data.expression_type):
        if not data.code_set:
            return EVERYTHING
        return Matcher(tags=data.code_set.__contains__)
    return Matcher(properties=_compile_sql(data.sub_string))


def _compile_sql(expression: str) -> Callable[[bytes], bool]:
    # Imported on the first SQL92 subscription: most brokers never see one.
    from broker.filter.sql92 import compile_sql
    from broker.message.properties import decode_properties

    evaluate = compile_sql(expression)

    def matches(raw: bytes) -> bool:
        return evaluate(decode_properties(raw)) is True

    return matches
