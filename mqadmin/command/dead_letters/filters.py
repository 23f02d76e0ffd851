"""The options that choose dead letters, declared once."""

from typing import Annotated

from mqadmin.admin.dlq.select import DeadLetterFilter
from mqadmin.command.framework.declare import Option
from mqadmin.command.framework.values import pair

Tags = Annotated[
    list[str] | None, Option("--tag", metavar="TAG", help="Only with this tag; may be repeated.")
]
Keys = Annotated[
    list[str] | None,
    Option("--key", "-k", metavar="KEY", help="Only with this key; may be repeated."),
]
Properties = Annotated[
    list[str] | None,
    Option(
        "--property", metavar="K=V", help="Only with this property; may be repeated.", parse=pair
    ),
]
Origin = Annotated[
    str | None,
    Option(
        "--origin",
        metavar="TOPIC",
        help="Only messages that were first sent to this topic.",
        complete="topic",
    ),
]
Exceptions = Annotated[
    str | None,
    Option(
        "--exception",
        metavar="TEXT",
        help="Only with TEXT in a property named like exception or error.",
    ),
]


def dead_letter_filter(
    tags: list[str] | None,
    keys: list[str] | None,
    properties: list[str] | None,
    origin: str | None,
    exception: str | None,
) -> DeadLetterFilter:
    """Build the filter of a command line."""
    pairs = dict(word.split("=", 1) for word in properties or ())
    return DeadLetterFilter(
        tags=tuple(tags or ()),
        keys=tuple(keys or ()),
        properties=pairs or None,
        origin=origin,
        exception=exception,
    )
