"""``mqadmin topic stats`` and ``mqadmin topic top``."""

from typing import Annotated

from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import Interval, Once
from mqadmin.command.framework.declare import Argument, Option
from mqadmin.command.framework.nouns import live_run
from mqadmin.command.topic import NOUN
from mqadmin.output.values import byte_rate_text, rate_text
from mqadmin.output.view import View

COLUMNS = (
    "topic",
    "group",
    "inTps",
    "inBytesPerSecond",
    "inMessages24Hours",
    "outTps",
    "outMessages24Hours",
    "lag",
)
TEXTS = {"inTps": rate_text, "inBytesPerSecond": byte_rate_text, "outTps": rate_text}
TOPIC_STATS = View("topic.stats", COLUMNS, texts=TEXTS)
TOPIC_TOP = View("topic.top", COLUMNS, texts=TEXTS)

Topics = Annotated[
    list[str] | None,
    Argument("TOPIC", help="Topics; default: all topics.", complete="topic"),
]
System = Annotated[bool, Option("--system", help="Include topics of RocketMQ itself.")]
Lag = Annotated[bool, Option("--lag/--no-lag", help="Query the lag of each group.")]


@NOUN.verb(
    "stats",
    view=TOPIC_STATS,
    examples=["mqadmin topic stats orders", "mqadmin topic stats --no-lag -o csv"],
)
def stats(
    session: Session,
    topics: Topics = None,
    system: System = False,
    lag: Lag = True,
) -> None:
    """Print rates, messages of 24 hours and lag of topics and the groups that consume them.

    Rates are averages of the last minute, summed over the brokers of the topic; brokers count
    since their start. The sum of a day is known after the first hour, until then that of the hour.
    """
    live_run().topic_stats(session, TOPIC_STATS, topics or (), system=system, lag=lag)


@NOUN.verb(
    "top",
    view=TOPIC_TOP,
    examples=["mqadmin topic top", "mqadmin topic top --once --sort lag:desc -o json"],
)
def top(
    session: Session,
    topics: Topics = None,
    interval: Interval = 5000,
    once: Once = False,
    system: System = False,
    lag: Lag = True,
) -> None:
    """Show the traffic of topics and the lag of their groups on a live screen, busiest first.

    Keys: q quits, s sorts by the next column, r reverses the order, f freezes the screen. With
    --once or another output than a table it prints one measurement.
    """
    live_run().topic_top(
        session, TOPIC_TOP, topics or (), system=system, lag=lag, once=once, interval_ms=interval
    )
