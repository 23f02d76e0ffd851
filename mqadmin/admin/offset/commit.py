"""Commits of offsets that no concurrent commit of the same group and topic can undo.

A Java broker creates the offset table of a group and topic with its first commit, without a lock:
of two first commits at the same time, one is lost although both are answered SUCCESS.

**Source:** RocketMQ ``ConsumerOffsetManager#commitOffset``.
"""

from collections.abc import Sequence

from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.rpc.caller import Caller, Reply


def commit_all(
    admin: Caller, requests: Sequence[tuple[str, RemotingCommand]]
) -> list[Reply | RocketMQError]:
    """Send (address, request) pairs; result i is the reply or the error of request i.

    The first commit of each broker, group and topic is answered before the others are sent.
    """
    first: list[int] = []
    others: list[int] = []
    seen: set[tuple[str, str | None, str | None]] = set()
    for place, (address, command) in enumerate(requests):
        fields = command.ext_fields
        key = (address, fields.get("consumerGroup"), fields.get("topic"))
        if command.code == RequestCode.UPDATE_CONSUMER_OFFSET and key in seen:
            others.append(place)
        else:
            seen.add(key)
            first.append(place)
    answers: dict[int, Reply | RocketMQError] = {}
    for places in (first, others):
        found = admin.call_all([requests[place] for place in places])
        answers.update(zip(places, found, strict=True))
    return [answers[place] for place in range(len(requests))]
