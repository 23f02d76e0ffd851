"""The online library of the toolkit: everything ``mqadmin`` can ask of a running cluster.

Duty: turn one question about topics, groups, messages or offsets into requests to name servers
and brokers, and their answers into values. The command line is one user of it, scripts another::

    from mqadmin.admin import MQAdmin

    with MQAdmin(["127.0.0.1:9876"]) as admin:
        for record in admin.topic.list().items:
            ...
        plan = admin.topic.plan_create("orders", queues=8)
        outcome = admin.apply(plan)

Theory of operation: :class:`~mqadmin.admin.session.MQAdmin` owns the connections and the total
deadline; one module per noun holds the questions and the records they answer with. Requests to
several brokers go out together and are read as they come, without threads and without an event
loop: a command is a cron line, and its start-up is most of its cost. For the same reason a noun's
module is loaded when it is first used.

Reading returns a :class:`~mqadmin.admin.result.Listing`: what was found, beside the targets that
could not be asked. Changing is always two calls: ``plan_…`` looks and returns a
:class:`~mqadmin.admin.result.Plan` (each target with before and after), ``admin.apply`` carries
it out, reads back and reports target by target.

Limits: the deadline of the session bounds every call; a key query returns at most ``max``
messages and says when there were more; scans read at most ``scan_limit`` messages.

**Source:** RocketMQ ``tools.admin`` (DefaultMQAdminExtImpl) for which request answers what;
the shape (fan-out, plan and apply, distinct answers for "no") is our own.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqadmin.admin.session import MQAdmin

__all__ = ["MQAdmin"]


def __getattr__(name: str) -> object:
    """Load the session when it is first asked for, so that importing a record costs little."""
    if name == "MQAdmin":
        from mqadmin.admin.session import MQAdmin

        return MQAdmin
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
