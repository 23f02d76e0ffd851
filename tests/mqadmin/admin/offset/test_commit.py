"""The first commit of a group and topic is answered before the broker receives others."""

import random

from broker.errors import RemotingError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.offset.commit import commit_all


class RacingBrokers:
    """Brokers that lose a commit which arrives together with the first one of its topic."""

    def __init__(self) -> None:
        self.tables: dict[tuple[str, str, str], dict[int, int]] = {}
        self.rounds = 0

    def call_all(self, requests):
        """Answer each request with an error that names it."""
        self.rounds += 1
        before = set(self.tables)
        for address, command in requests:
            fields = command.ext_fields
            key = (address, fields["consumerGroup"], fields["topic"])
            if key not in before:
                self.tables[key] = {}  # each of the concurrent commits creates the table
            self.tables[key][int(fields["queueId"])] = int(fields["commitOffset"])
        return [RemotingError(name_of(address, command)) for address, command in requests]


def name_of(address, command):
    fields = command.ext_fields
    return f"{address} {fields['consumerGroup']} {fields['topic']} {fields['queueId']}"


def commit(group: str, topic: str, queue_id: int, offset: int):
    return build_request(
        RequestCode.UPDATE_CONSUMER_OFFSET,
        {"consumer_group": group, "topic": topic, "queue_id": queue_id, "commit_offset": offset},
    )


def test_no_commit_is_lost_and_answers_keep_their_order(rng: random.Random) -> None:
    places = [
        (address, group, topic, queue_id)
        for address in ("a:1", "b:1")
        for group in ("g", "h")
        for topic in ("orders", "bills")
        for queue_id in range(rng.randint(1, 5))
    ]
    rng.shuffle(places)
    requests = [
        (address, commit(group, topic, queue_id, number))
        for number, (address, group, topic, queue_id) in enumerate(places)
    ]
    brokers = RacingBrokers()
    answers = commit_all(brokers, requests)
    assert [answer.message for answer in answers] == [name_of(*one) for one in requests]
    committed = {
        (*key, queue_id): offset
        for key, table in brokers.tables.items()
        for queue_id, offset in table.items()
    }
    assert committed == {place: number for number, place in enumerate(places)}
    assert brokers.rounds == 2


def test_other_requests_are_sent_in_one_round() -> None:
    fields = {"topic": "T", "group": "g", "timestamp": 0, "is_force": True, "queue_id": 0}
    requests = [
        ("a:1", build_request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {**fields, "offset": one}))
        for one in range(3)
    ]

    sizes: list[int] = []

    class Peers:
        def call_all(self, requests):
            sizes.append(len(requests))
            return [RemotingError("refused")] * len(requests)

    assert len(commit_all(Peers(), requests)) == 3
    assert [size for size in sizes if size] == [3]
