"""One message passed to one consumer."""

import pytest

from broker.errors import ClientError
from mqadmin.admin.facade import MQAdmin
from tests.support.online_clients import Online


def test_the_listener_of_the_client_gets_the_message(online: Online, library: MQAdmin) -> None:
    message = library.message.query_id(online.sent[0]).items[0]
    result = library.direct.consume(message, "billing")
    assert (result.client_id, result.consume_result) == (online.client_id, "CR_SUCCESS")
    assert online.got.get(timeout=30).physical_offset == message.physical_offset


def test_the_result_of_a_failing_listener_is_returned(online: Online, library: MQAdmin) -> None:
    library.message.send("orders", b"fail", tags="A")
    message = library.message.query_time("orders", None, None).items[-1]
    result = library.direct.consume(message, "billing", client_id=online.client_id)
    assert result.consume_result == "CR_LATER"


def test_a_client_that_is_not_connected_is_refused(online: Online, library: MQAdmin) -> None:
    message = library.message.query_id(online.sent[0]).items[0]
    with pytest.raises(ClientError, match="no client other"):
        library.direct.plan(message, "billing", client_id="other")
    with pytest.raises(ClientError, match="0 clients of group none"):
        library.direct.plan(message, "none")
