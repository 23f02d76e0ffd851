"""Options and arguments that several nouns share, declared once."""

from typing import Annotated

from mqadmin.command.framework.declare import Argument, Option
from mqadmin.command.framework.values import (
    count,
    duration_ms,
    int32,
    per_second,
)

Group = Annotated[str, Argument("GROUP", help="Name of the consumer group.", complete="group")]
Topic = Annotated[str, Argument("TOPIC", help="Name of the topic.", complete="topic")]
OnlyTopic = Annotated[
    str | None,
    Option("--topic", "-t", metavar="TOPIC", help="Only this topic.", complete="topic"),
]
OnlyCluster = Annotated[
    str | None, Option("--cluster", "-c", metavar="NAME", help="Only this cluster.")
]
OnlyQueue = Annotated[
    int | None, Option("--queue", metavar="N", help="Only this queue.", parse=int32)
]
TargetCluster = Annotated[
    str | None,
    Option(
        "--cluster",
        "-c",
        metavar="NAME",
        help="Cluster whose masters are changed; default: the only cluster.",
    ),
]
TargetBroker = Annotated[
    str | None,
    Option("--broker", "-b", metavar="BROKER", help="Broker that is changed (name or HOST:PORT)."),
]
IfNotExists = Annotated[
    bool, Option("--if-not-exists", help="Accept an existing one and leave it unchanged.")
]
Rate = Annotated[
    float | None,
    Option("--rate", metavar="N/s", help="Maximum messages per second.", parse=per_second),
]
Batch = Annotated[int, Option("--batch", metavar="N", help="Messages of one request.", parse=count)]
InFlight = Annotated[
    int,
    Option("--in-flight", metavar="N", help="Messages without a response.", parse=count),
]
UserOnly = Annotated[
    bool, Option("--user", help="Omit topics and groups that RocketMQ itself creates.")
]
Once = Annotated[bool, Option("--once", help="Print one table and exit, for scripts.")]
Interval = Annotated[
    int,
    Option(
        "--interval",
        metavar="DUR",
        help="Time between two measurements.",
        parse=duration_ms,
        shown="2s",
    ),
]
