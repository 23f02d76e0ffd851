"""The TCP transport: address map, VIP channel, requests in both directions."""

import asyncio
from pathlib import Path

import pytest

from broker.client.config import ClientConfig
from broker.client.instance.transport import RemotingTransport
from broker.errors import ConnectError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request, response
from broker.remoting.security.signing import ACCESS_KEY, Credentials
from broker.server.standalone import EmbeddedBroker


def transport(**settings: object) -> RemotingTransport:
    return RemotingTransport(ClientConfig(namesrv="ns:1", **settings))  # type: ignore[arg-type]


def test_an_advertised_address_is_replaced_by_a_reachable_one() -> None:
    mapped = transport(address_map={"10.0.0.1:10911": "gateway:4000"})
    assert mapped.reachable("10.0.0.1:10911", RequestCode.PULL_MESSAGE) == "gateway:4000"
    assert mapped.reachable("10.0.0.2:10911", RequestCode.PULL_MESSAGE) == "10.0.0.2:10911"


def test_the_vip_channel_is_used_for_sends_only() -> None:
    vip = transport(vip_channel=True)
    assert vip.reachable("h:10911", RequestCode.SEND_MESSAGE_V2) == "h:10909"
    assert vip.reachable("h:10911", RequestCode.PULL_MESSAGE) == "h:10911"
    both = transport(vip_channel=True, address_map={"h:10909": "gateway:1"})
    assert both.reachable("h:10911", RequestCode.SEND_MESSAGE_V2) == "gateway:1"


@pytest.mark.parametrize("credentials", [None, Credentials(access_key="ak", secret_key="sk")])
def test_requests_go_both_ways_on_one_connection(
    tmp_path: Path, credentials: Credentials | None
) -> None:
    async def main() -> None:
        seen: list[tuple[str, int]] = []

        async def handler(address: str, command: RemotingCommand) -> RemotingCommand:
            seen.append((address, command.code))
            return response(command, remark="from the client")

        async with EmbeddedBroker(str(tmp_path)) as broker:
            config = ClientConfig(namesrv=broker.namesrv_address, credentials=credentials)
            client = RemotingTransport(config, {RequestCode.GET_CONSUMER_RUNNING_INFO: handler})
            command = request(RequestCode.GET_BROKER_CLUSTER_INFO)
            answer = await client.call(broker.namesrv_address, command, 3_000)
            assert answer.code == 0
            assert (ACCESS_KEY in command.ext_fields) is (credentials is not None)
            await client.call(broker.address, request(RequestCode.GET_BROKER_RUNTIME_INFO), 3_000)
            (connection,) = broker.controller.context.server.connections
            back = await connection.call(request(RequestCode.GET_CONSUMER_RUNNING_INFO), 3_000)
            assert back.remark == "from the client"
            assert seen == [(broker.address, RequestCode.GET_CONSUMER_RUNNING_INFO)]
            await client.close()
            with pytest.raises(ConnectError):
                await client.call(broker.address, request(28), 1_000)

    asyncio.run(main())
