"""Answers that several processors give: the usual refusals, and headers read from ext fields.

**Source:** RocketMQ AbstractSendMessageProcessor, RemotingCommand#decodeCommandCustomHeader.
"""

from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response


def no_topic(request: RemotingCommand, topic: str) -> RemotingCommand:
    """TOPIC_NOT_EXIST naming the topic."""
    return response(
        request,
        ResponseCode.TOPIC_NOT_EXIST,
        f"topic[{topic}] not exist, apply first please!",
    )


def no_group(request: RemotingCommand, group: str) -> RemotingCommand:
    """SUBSCRIPTION_GROUP_NOT_EXIST naming the group."""
    return response(
        request,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        f"subscription group [{group}] does not exist, apply first please!",
    )


def bad_field(request: RemotingCommand, error: Exception) -> RemotingCommand:
    """SYSTEM_ERROR for a header whose field is missing or no number.

    Java fails there with a NullPointerException; the remark says which field it is.
    """
    if isinstance(error, KeyError):
        remark = f"header field {error.args[0]} is missing"
    else:
        remark = f"header field has no valid value: {error}"
    return response(request, ResponseCode.SYSTEM_ERROR, remark)
