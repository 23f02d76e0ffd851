"""Relay: a broker that was the master forwards its clients' requests to the new master.

Clients look up routes every 30 s and keep the old address until then; Java's do not look up sooner
after an error. For that time the old master, now a slave, passes requests on and returns the
answers. A record sent in this way has the address of this broker as its bornHost.

A broker that stops does not wait for the forwarded requests that the new master has suspended: a
switch back would wait for all of them. They get no response; clients repeat them elsewhere, as with
any broker that stops.

RocketMQ has no counterpart.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode as Code
from broker.remoting.protocol.command import RemotingCommand, next_opaque
from broker.remoting.protocol.command import response as make_response

if TYPE_CHECKING:
    from broker.remoting.client import RemotingClient
    from broker.remoting.server import Answer, Connection, Handler
    from broker.server.context import BrokerContext

# Longer than a client suspends a pull (30 s).
TIMEOUT_MS: Final = 35_000

RELAYED: Final = frozenset(
    {
        Code.SEND_MESSAGE,
        Code.SEND_MESSAGE_V2,
        Code.SEND_BATCH_MESSAGE,
        Code.CONSUMER_SEND_MSG_BACK,
        Code.RECALL_MESSAGE,
        Code.END_TRANSACTION,
        Code.PULL_MESSAGE,
        Code.LITE_PULL_MESSAGE,
        Code.QUERY_CONSUMER_OFFSET,
        Code.UPDATE_CONSUMER_OFFSET,
        Code.SEARCH_OFFSET_BY_TIMESTAMP,
        Code.GET_MAX_OFFSET,
        Code.GET_MIN_OFFSET,
        Code.LOCK_BATCH_MQ,
        Code.UNLOCK_BATCH_MQ,
        Code.POP_MESSAGE,
        Code.PEEK_MESSAGE,
        Code.ACK_MESSAGE,
        Code.BATCH_ACK_MESSAGE,
        Code.CHANGE_MESSAGE_INVISIBLETIME,
        Code.NOTIFICATION,
    }
)

# Requests that the new master may suspend until there is a message.
SUSPENDED: Final = frozenset(
    {Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, Code.POP_MESSAGE, Code.NOTIFICATION}
)


class Relay:
    """Forward to the address ``find_master()`` until ``until_ms`` (monotonic)."""

    def __init__(
        self,
        context: "BrokerContext",
        client: "RemotingClient",
        find_master: Callable[[], str],
        until_ms: float,
    ) -> None:
        self._context = context
        self._client = client
        self._find_master = find_master
        self._until_ms = until_ms
        self._suspended: set[asyncio.Task[RemotingCommand]] = set()

    def stop(self) -> None:
        """End the forwarded requests that may be suspended; others get their response."""
        self._until_ms = 0.0
        for call in self._suspended:
            call.cancel()

    def wrap(self, handlers: Mapping[int, "Handler"]) -> "dict[int, Handler]":
        """Return the handlers, those of :data:`RELAYED` with forwarding before them."""
        return {
            code: self._wrapped(handler) if code in RELAYED else handler
            for code, handler in handlers.items()
        }

    def _wrapped(self, own: "Handler") -> "Handler":
        async def forward(connection: "Connection", request: RemotingCommand) -> "Answer":
            master = self._find_master()
            over = self._context.clock.monotonic_ms() >= self._until_ms
            if not over and master and master != self._context.address:
                try:
                    return await self._forward(master, request)
                except RocketMQError:
                    pass  # the new master is not there yet: this broker answers as a slave
            answer = own(connection, request)
            return await answer if isinstance(answer, Awaitable) else answer

        return forward

    async def _forward(self, master: str, request: RemotingCommand) -> RemotingCommand | None:
        command = RemotingCommand(
            code=request.code,
            language=request.language,
            version=request.version,
            opaque=next_opaque(),
            flag=request.flag,
            ext_fields=dict(request.ext_fields),
            body=request.body_bytes(),
        )
        if request.is_oneway:
            await self._client.oneway(master, command, TIMEOUT_MS)
            return None
        if request.code not in SUSPENDED:
            answer = await self._client.call(master, command, TIMEOUT_MS)
        elif (found := await self._suspendable(master, command)) is not None:
            answer = found
        else:
            return None
        return make_response(
            request, answer.code, answer.remark, dict(answer.ext_fields), answer.body_bytes()
        )

    async def _suspendable(self, master: str, command: RemotingCommand) -> RemotingCommand | None:
        """Return the response; None if :meth:`stop` has ended the call."""
        loop = asyncio.get_running_loop()
        call = loop.create_task(self._client.call(master, command, TIMEOUT_MS))
        self._suspended.add(call)
        try:
            await asyncio.wait({call})
        finally:
            self._suspended.discard(call)
            call.cancel()
        return None if call.cancelled() else call.result()
