"""Clients: heartbeats, members, notices."""

import json

from broker.remoting.protocol.codes import RequestCode


def heartbeat(*groups: str, topic: str = "Orders") -> bytes:
    return json.dumps(
        {
            "clientID": "192.0.2.1@one",
            "consumerDataSet": [
                {
                    "groupName": group,
                    "consumeType": "CONSUME_PASSIVELY",
                    "messageModel": "CLUSTERING",
                    "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                    "subscriptionDataSet": [
                        {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
                    ],
                    "unitMode": False,
                }
                for group in groups
            ],
            "producerDataSet": [{"groupName": "P1"}],
        }
    ).encode()


def test_members_hear_of_a_new_group_after_its_retry_topic_was_announced(desk) -> None:
    """A client that rebalances before the retry topic has a route tries again 20 s later."""
    desk.topic("Orders")
    said_before = []

    async def announce(topics) -> None:
        said_before.append((list(topics), len(desk.connection.sent)))

    desk.context.announce = announce
    answer = desk.ask(RequestCode.HEART_BEAT, body=heartbeat("G1"))
    assert said_before == [(["%RETRY%G1"], 0)]
    assert answer.ext_fields["IS_SUB_CHANGE"] == "true"
    (notice,) = desk.connection.commands
    assert notice.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    assert notice.ext_fields == {"consumerGroup": "G1"}
    desk.ask(RequestCode.HEART_BEAT, body=heartbeat("G1"))
    assert len(said_before) == 1
    assert len(desk.connection.sent) == 1


def test_a_client_that_left_while_its_retry_topic_was_announced_is_no_member(desk) -> None:
    async def announce(topics) -> None:
        desk.connection.closed = True

    desk.context.announce = announce
    desk.ask(RequestCode.HEART_BEAT, body=heartbeat("G1"))
    assert desk.context.consumers.get("G1") is None
