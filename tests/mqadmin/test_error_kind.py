"""The kind of each error, refusals by access control apart from others."""

import pytest

from broker.errors import (
    ClientError,
    ConnectError,
    RemoteProtocolError,
    RequestTimeoutError,
    SendRequestError,
)
from mqadmin.admin.failure import refusal
from mqadmin.error_kind import kind_of


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectError("x", address="h:1"), "unreachable"),
        (SendRequestError("x", address="h:1"), "unreachable"),
        (RequestTimeoutError("x", address="h:1"), "timeout"),
        (RemoteProtocolError("x"), "protocol"),
        (ClientError("x"), "client"),
        (refusal("h:1", 10, 2, "busy"), "refused"),
        (refusal("h:1", 10, 1, "org.apache.rocketmq.acl.common.AclException: no"), "notPermitted"),
        (refusal("h:1", 10, 16, "User:peer2 has no permission to access"), "notPermitted"),
        (refusal("h:1", 10, 16, "username cannot be null."), "notPermitted"),
        (refusal("h:1", 10, 16, "check signature failed."), "notPermitted"),
        (refusal("h:1", 17, 16, "… answered to loopback peers only; …"), "notPermitted"),
        (refusal("h:1", 10, 16, "The user is existed"), "refused"),
        (refusal("h:1", 10, 16, "sending message is forbidden"), "refused"),
    ],
)
def test_kinds(error, kind) -> None:
    assert kind_of(error) == kind
