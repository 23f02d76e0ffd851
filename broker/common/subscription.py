"""SubscriptionData: the subscription of a consumer group to a topic.

**Source:** RocketMQ SubscriptionData, FilterAPI, ExpressionType.
"""

from collections.abc import Mapping

import msgspec

from broker.common.java import string_hash
from broker.errors import RemoteProtocolError

SUB_ALL = "*"
EXPRESSION_TAG = "TAG"
EXPRESSION_SQL92 = "SQL92"


class SubscriptionData(msgspec.Struct, frozen=True, rename="camel"):
    """One topic of a group's subscription.

    ``sub_string`` is the expression as written, ``tags_set`` its tags, ``code_set`` their Java
    hashes (signed 32 bits), ``sub_version`` the time of the subscription in ms: a larger one
    replaces a smaller one. For SQL92 both sets are empty.
    """

    topic: str = ""
    sub_string: str = SUB_ALL
    tags_set: frozenset[str] = frozenset()
    code_set: frozenset[int] = frozenset()
    sub_version: int = 0
    expression_type: str = EXPRESSION_TAG
    class_filter_mode: bool = False


def is_tag_type(expression_type: str | None) -> bool:
    """Whether the expression type is by tags: absent, empty or ``TAG``.

    **Source:** RocketMQ ExpressionType#isTagType.
    """
    return not expression_type or expression_type == EXPRESSION_TAG


def split_tag_expression(expression: str) -> list[str]:
    """Return the tags of ``a || b``, in order, trimmed, without empty ones.

    Raises RemoteProtocolError if there are only separators. ``*`` is not special here.

    **Source:** RocketMQ FilterAPI#buildSubscriptionData.
    """
    parts = expression.split("||")
    while parts and not parts[-1]:  # Java's split drops empty strings at the end
        parts.pop()
    if not parts:
        raise RemoteProtocolError(
            f"subString split error: {expression!r:.100}", "write tags as: TagA || TagB"
        )
    return [tag for tag in (part.strip() for part in parts) if tag]


def build_subscription(
    topic: str,
    expression: str | None,
    expression_type: str = EXPRESSION_TAG,
    sub_version: int = 0,
) -> SubscriptionData:
    """Build the subscription of ``topic``: a tag expression, or unchanged SQL92 text.

    An absent, empty or ``*`` tag expression means all messages. Raises RemoteProtocolError as
    split_tag_expression, and for an empty SQL92 expression.
    """
    if not is_tag_type(expression_type):
        if not expression:
            raise RemoteProtocolError(f"an empty {expression_type} expression for {topic!r:.80}")
        return SubscriptionData(
            topic=topic,
            sub_string=expression,
            sub_version=sub_version,
            expression_type=expression_type,
        )
    if not expression or expression == SUB_ALL:
        return SubscriptionData(topic=topic, sub_version=sub_version)
    tags = frozenset(split_tag_expression(expression))
    return SubscriptionData(
        topic=topic,
        sub_string=expression,
        tags_set=tags,
        code_set=frozenset(map(string_hash, tags)),
        sub_version=sub_version,
    )


def subscription_to_wire(data: SubscriptionData) -> dict[str, object]:
    """Return the JSON object, fields in Java's (alphabetical) order, sets as sorted lists."""
    return {
        "classFilterMode": data.class_filter_mode,
        "codeSet": sorted(data.code_set),
        "expressionType": data.expression_type,
        "subString": data.sub_string,
        "subVersion": data.sub_version,
        "tagsSet": sorted(data.tags_set),
        "topic": data.topic,
    }


def subscription_from_wire(wire: Mapping[str, object]) -> SubscriptionData:
    """Read a subscription; absent or null fields get Java's defaults, unknown ones are dropped.

    RemoteProtocolError names the field that cannot be read.
    """
    known = {name: value for name, value in wire.items() if value is not None}
    try:
        return msgspec.convert(known, SubscriptionData, strict=False)
    except msgspec.ValidationError as error:
        raise RemoteProtocolError(f"subscription: {error}") from None
