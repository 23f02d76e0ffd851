"""Tag filters: ``TagA || TagB`` as a set of hash codes, matched with a unit's tag code.

**Source:** RocketMQ FilterAPI#buildSubscriptionData, ExpressionMessageFilter
#isMatchedByConsumeQueue.
"""

from collections.abc import Callable, Collection

from broker.common.java import string_hash, to_int32
from broker.common.subscription import SUB_ALL, split_tag_expression


def parse_tag_expression(expression: str | None) -> frozenset[int] | None:
    """Return the hash codes of the tags, None for all messages (``*``, empty, absent).

    Raises RemoteProtocolError if the expression contains only separators.
    """
    if not expression or expression == SUB_ALL:
        return None
    return frozenset(map(string_hash, split_tag_expression(expression)))


def match_everything(tags_code: int) -> bool:
    """Match any tag code: the matcher of ``*``."""
    return True


def tag_matcher(codes: Collection[int] | None) -> Callable[[int], bool]:
    """Return a function that matches a unit's tag code (64 bits).

    None matches every code, an empty set none. A code also matches by its low 32 bits.
    """
    if codes is None:
        return match_everything
    wanted = frozenset(codes)

    def matches(tags_code: int) -> bool:
        return tags_code in wanted or to_int32(tags_code) in wanted

    return matches


def match_tags(tags: str | None, wanted: Collection[str]) -> bool:
    """Whether a message's tag text is one of ``wanted``, as the client checks after the broker.

    An empty ``wanted`` matches every message; otherwise a message without tag does not match.

    **Source:** RocketMQ PullAPIWrapper#processPullResult.
    """
    return not wanted or tags in wanted
