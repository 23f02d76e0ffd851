"""The noun ``store`` and the options that several of its verbs share."""

from string import hexdigits
from typing import Annotated, Literal

from mqadmin.command.declare import Argument, Noun, Option
from mqadmin.command.values import count, whole

NOUN = Noun(
    "store",
    """Inspect, verify and repair store files offline.

    A broker's store is a directory: the CommitLog holds every message once, in the order of
    arrival; ConsumeQueues hold for each message queue where its messages stand in the log;
    IndexFiles lead from keys to messages; checkpoint, abort file and config/ hold the rest. These
    commands need no broker and no network. They open files for reading only, take no lock, and
    work on a live directory, on a copy, on one file alone, and on stores written by a Java broker
    4.9 or 5.x. What is damaged is reported and skipped, and the exit status is then 7. Only
    repair, recover and export write, and only where --output says.
    """,
)


def stored_id(text: str) -> str:
    """Check an id: an offsetMsgId or a uniqKey has at least 32 hexadecimal digits."""
    if len(text) < 32 or not set(text) <= set(hexdigits):
        raise ValueError(
            f"{text!r:.80} is neither an offsetMsgId nor a uniqKey;"
            " --key finds messages by any key or uniqKey"
        )
    return text


PATH_HELP = "A store directory, a folder in it, or one of its files."

Path = Annotated[str, Argument("DIR|FILE", help=PATH_HELP, complete="file")]
Topic = Annotated[str | None, Option("--topic", "-t", metavar="TOPIC", help="Only this topic.")]
Queue = Annotated[
    int | None, Option("--queue", metavar="N", help="Only this queue id.", parse=whole)
]
Limit = Annotated[
    int | None, Option("--limit", metavar="N", help="Show at most N rows.", parse=count)
]
BodyForm = Annotated[
    Literal["none", "text", "hex", "base64"], Option("--body", help="Show bodies in this form.")
]
Raw = Annotated[bool, Option("--raw", help="The stored bytes of bodies, not decompressed.")]
