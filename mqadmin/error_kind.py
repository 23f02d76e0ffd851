"""The kinds of errors in records and messages: unreachable, refused, notPermitted and others.

Imports only error classes and codes: the command line maps every error with it.
"""

from broker.errors import (
    BrokerError,
    ProtocolError,
    RemotingError,
    RequestTimeoutError,
    RocketMQError,
)
from broker.remoting.protocol.codes import ResponseCode

#: The remark of this project's broker and name server for admin requests from other hosts.
LOOPBACK_ONLY = "to loopback peers only"


def kind_of(error: RocketMQError) -> str:
    """Return the ``kind`` of an error record."""
    if isinstance(error, BrokerError):
        if is_about_access(error.code, error.remark):
            return "notPermitted"
        return "refused"
    if isinstance(error, RequestTimeoutError):
        return "timeout"
    if isinstance(error, RemotingError):
        return "unreachable"
    if isinstance(error, ProtocolError):
        return "protocol"
    return "client"


def is_about_access(response_code: int, remark: str) -> bool:
    """True for a refusal by access control rather than by the state of a topic or group.

    **Source:** RocketMQ ``AclException`` (1.0: SYSTEM_ERROR with its class name in the remark)
    and ``AuthenticationException``, ``AuthorizationException`` (2.0: NO_PERMISSION with these
    words; other NO_PERMISSION responses are about the state of a topic or group).
    """
    if response_code == ResponseCode.SYSTEM_ERROR:
        return "AclException" in remark
    if response_code != ResponseCode.NO_PERMISSION:
        return False
    text = remark.lower()
    return any(
        word in text
        for word in (
            "authentic",
            "authoriz",
            "has no permission to access",
            "signature",
            "username cannot be null",
            "user:",
            LOOPBACK_ONLY,
        )
    )
