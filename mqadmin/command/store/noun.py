"""The noun ``store`` and the options that several of its verbs share."""

from string import hexdigits
from typing import Annotated, Literal

from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.framework.declare import Argument, Noun, Option
from mqadmin.command.framework.values import count, int32

NOUN = Noun(
    "store",
    """Inspect, verify and repair store files offline.

    The store of a broker is a directory: the CommitLog contains every message once, in the order
    of arrival; ConsumeQueues contain the location of each message of a queue in the log;
    IndexFiles map keys to messages; checkpoint, abort file and config/ contain the state. These
    commands need no broker and no network; only import sends to a cluster. They open files
    read-only, take no lock, and read a live store, a copy, or a single file, written by this
    broker or by a Java broker 4.9 or 5.x. Damaged regions are reported and skipped; the exit
    status is then 7. Only repair, recover, copy, trim and export write, and only to --out, unless
    --in-place is given.
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


def refuse_raw_alone(body: str, raw: bool) -> None:
    """Raise UsageFault for --raw without a body."""
    if raw and body == "none":
        raise UsageFault("--raw applies to the body, but no body is shown", "add --body text")


PATH_HELP = "A store directory, a folder in it, or one of its files."

Path = Annotated[str, Argument("DIR|FILE", help=PATH_HELP, complete="file")]
Topic = Annotated[str | None, Option("--topic", "-t", metavar="TOPIC", help="Only this topic.")]
Key = Annotated[
    str | None,
    Option("--key", "-k", metavar="KEY", help="Only messages with this key or uniqKey."),
]
Queue = Annotated[
    int | None, Option("--queue", metavar="N", help="Only this queue id.", parse=int32)
]
Limit = Annotated[
    int | None, Option("--limit", metavar="N", help="Show at most N rows.", parse=count)
]
BodyForm = Annotated[
    Literal["none", "text", "hex", "base64"], Option("--body", help="Show bodies in this form.")
]
Raw = Annotated[bool, Option("--raw", help="Show the stored bytes of bodies, not decompressed.")]
