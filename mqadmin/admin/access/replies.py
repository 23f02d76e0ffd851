"""Responses of brokers about users and rules, whose body is empty if there are none.

:class:`EntryReader` reads the users, or the rules, by the name of the user or subject.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from broker.errors import ClientError, RocketMQError
from mqadmin.admin.change import State
from mqadmin.admin.failure import having
from mqadmin.admin.result import Plan, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target


def found_values(
    admin: AdminSession, targets: Sequence[Target], code: int, **fields: Any
) -> Sequence[Any]:
    """Return the decoded body of each target, None for an empty one, or the error.

    The targets are asked in turn: an empty body is not a value of the RPC table.

    **Source:** RocketMQ ``AdminBrokerProcessor#getUser``, ``#listUser``, ``#getAcl``, ``#listAcl``.
    """
    answers: list[Any] = []
    for target in targets:
        try:
            reply = admin.call(target.address, code, **fields)
            answers.append(reply.value if reply.body else None)
        except RocketMQError as error:
            answers.append(error)
    return answers


class EntryReader:
    """Reads one kind of entry of the broker processes: a user, or the rules of a subject.

    ``get_code`` requests the entry with a name, sent as the field ``name_field``; ``list_code``
    requests all. ``missing`` builds the error for a name and a place that does not have it.
    """

    def __init__(
        self,
        admin: AdminSession,
        *,
        get_code: int,
        list_code: int,
        name_field: str,
        missing: Callable[[str, str], ClientError],
    ) -> None:
        self._admin = admin
        self._get_code = get_code
        self._list_code = list_code
        self._name_field = name_field
        self._missing = missing

    def targets(self, cluster: str | None, broker: str | None) -> Sequence[Target]:
        """Return the processes to change, slaves included; default: those of the only cluster."""
        if cluster is None and broker is None:
            cluster = self._admin.topology.only_cluster()
        return self._admin.topology.all(cluster=cluster, broker=broker)

    def named(self, targets: Sequence[Target], name: str) -> Sequence[Any]:
        """Return the entry of each target, None if it has none with this name, or the error."""
        return found_values(self._admin, targets, self._get_code, **{self._name_field: name})

    def existing(
        self, name: str, cluster: str | None, broker: str | None
    ) -> tuple[Sequence[tuple[Target, Any]], Sequence[TargetError]]:
        """Return the processes that have the entry; raise ``missing`` if none has it."""
        targets = self.targets(cluster, broker)
        missing = self._missing(name, broker or cluster or "any broker")
        return having(targets, self.named(targets, name), missing)

    def _all_of(self, broker: str) -> dict[str, Any]:
        """Return every entry of a broker (its first process) by name; raises its error."""
        (place,) = self._admin.topology.named(broker)[:1]
        (found,) = found_values(self._admin, [place], self._list_code)
        if isinstance(found, RocketMQError):
            raise found
        return {getattr(one, self._name_field): one for one in (found.items if found else ())}

    def to_copy(self, source: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Yield the name and entry of each of ``names``, by default of all, sorted, of a broker.

        Raises ``missing`` when it arrives at a name that the broker does not have.
        """
        entries = self._all_of(source)
        for name in names or sorted(entries):
            if name not in entries:
                raise self._missing(name, source)
            yield name, entries[name]

    def states(
        self, plan: Plan, state_of: Callable[[Any], State]
    ) -> Sequence[State | RocketMQError]:
        """Return the present state of each target of a plan, for the comparison with it."""
        targets = [Target(address=change.address) for change in plan.changes]
        return [
            found if found is None or isinstance(found, RocketMQError) else state_of(found)
            for found in self.named(targets, plan.subject)
        ]
