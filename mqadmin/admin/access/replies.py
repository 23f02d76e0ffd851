"""Responses of brokers about users and rules, whose body is empty when there is nothing."""

from collections.abc import Sequence
from typing import Any

from broker.errors import RocketMQError
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
