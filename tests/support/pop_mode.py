"""Setting the request mode (PULL or POP) of a topic and group at a broker."""

import json

from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.body.consumer.lock import SetMessageRequestModeRequestBody
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request


def set_request_mode(broker: str, topic: str, group: str, mode: str = "POP") -> None:
    """Create the group and set its mode for the topic."""
    body = SetMessageRequestModeRequestBody(topic=topic, consumer_group=group, mode=mode)
    group_config = {
        "groupName": group, "consumeEnable": True, "consumeFromMinEnable": True,
        "retryQueueNums": 1, "retryMaxTimes": 16,
    }  # fmt: skip
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    with BlockingClient(timeout_ms=20_000) as client:
        made = client.call(broker, request(code, {}, json.dumps(group_config).encode()))
        assert made.code == 0, made.remark
        set_mode = request(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, body.to_bytes())
        answer = client.call(broker, set_mode)
    assert answer.code == 0, answer.remark
