"""Tag filters: ``TagA || TagB`` as a set of hash codes, and the match on a unit's tag code.

**Source:** RocketMQ FilterAPI#buildSubscriptionData, ExpressionMessageFilter
#isMatchedByConsumeQueue.
"""

from collections.abc import Callable, Collection

from broker.common.java import string_hash, to_int32
from broker.common.subscription import SUB_ALL, split_tag_expression


def parse_tag_expression(expression: str | None) -> frozenset[int] | None:
    """The hash codes of the tags, None for "everything" (``*``, empty, absent).

    RemoteProtocolError when there are only separators.
    """
    if not expression or expression == SUB_ALL:
        return None
    return frozenset(map(string_hash, split_tag_expression(expression)))


def match_everything(tags_code: int) -> bool:
    """The matcher of ``*``."""
    return True


def tag_matcher(codes: Collection[int] | None) -> Callable[[int], bool]:
    """A function from a unit's tag code (64 bits) to match or no match.

    None matches everything, an empty set nothing. Only the low 32 bits of the code count.
    """
    if codes is None:
        return match_everything
    wanted = frozenset(codes)

    def matches(tags_code: int) -> bool:
        return tags_code in wanted or to_int32(tags_code) in wanted

    return matches


def match_tags(tags: str | None, wanted: Collection[str]) -> bool:
    """The client's second look: whether a message's tag text is one of ``wanted``.

    An empty ``wanted`` takes everything; otherwise a message without tag is dropped.

    **Source:** RocketMQ PullAPIWrapper#processPullResult.
    """
    return not wanted or tags in wanted
