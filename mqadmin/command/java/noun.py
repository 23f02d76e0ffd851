"""``mqadmin java``: list; the sub-commands themselves are in ``names``."""

from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Noun
from mqadmin.command.java.names import JAVA_NAMES
from mqadmin.output.view import View

NOUN = Noun(
    "java",
    """Run the sub-commands of RocketMQ's Java tool under their own names.

    mqadmin java topicRoute -t TOPIC, or shorter mqadmin topicRoute -t TOPIC, takes Java's options,
    prints Java's columns, and exits with the statuses of mqadmin. Names are accepted in any case.
    mqadmin help topicRoute prints the options of one.
    """,
)

JAVA_LIST = View("java.list", ("name", "equivalent"), keep=("equivalent",))


@NOUN.verb("list", view=JAVA_LIST, examples=["mqadmin java list"])
def list_names(session: Session) -> None:
    """List the names with the command that does the same with noun and verb."""
    rows = [
        {"name": row.name, "equivalent": f"mqadmin {row.equivalent}" if row.equivalent else None}
        for row in dict.fromkeys(JAVA_NAMES.values())  # an alias is the same row
    ]
    session.emit(JAVA_LIST, rows)
