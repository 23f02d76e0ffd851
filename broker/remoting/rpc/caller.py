"""Caller: requests by code and typed fields, responses as typed values.

The RPC table (:data:`broker.remoting.protocol.rpc.RPC`) defines the header and body types of each
request code; only the types of the codes in use are imported.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from broker.errors import (
    BrokerError,
    ClientError,
    RemoteProtocolError,
    RemotingError,
    RocketMQError,
)
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.protocol.rpc import RPC, decode_header_fields, encode_header_fields

#: Timeout for one of several name servers, after which the next one is tried.
NAMESRV_TIMEOUT_MS = 3_000

#: Default of every ``accept`` list.
_SUCCESS_ONLY = (ResponseCode.SUCCESS,)


def build_request(code: int, fields: Mapping[str, Any], body: bytes = b"") -> RemotingCommand:
    """Build a request; ``fields`` are its header's in snake_case, None is omitted.

    Raises ClientError if the code has no header fields.
    """
    ext: dict[str, str] = {}
    if fields:
        header = RPC[code].request_header_type
        if header is None:
            raise ClientError(f"request {code} takes no header fields")
        ext = encode_header_fields(header(**fields))
    return request(code, ext, body)


class Reply:
    """One accepted response of ``address`` to request ``code``."""

    def __init__(self, address: str, code: int, command: RemotingCommand) -> None:
        self.address = address
        self.request_code = code
        self.command = command

    @property
    def code(self) -> int:
        """The response code."""
        return self.command.code

    @property
    def body(self) -> bytes:
        """The body as one bytes object."""
        return self.command.body_bytes()

    @cached_property
    def header(self) -> Any:
        """The typed response header; raises RemoteProtocolError for a missing or invalid field."""
        header = RPC[self.request_code].response_header_type
        if header is None:
            raise ClientError(f"request {self.request_code} has no response header")
        try:
            return decode_header_fields(header, self.command.ext_fields)
        except RemoteProtocolError as error:
            raise self._misread(error) from error

    @cached_property
    def value(self) -> Any:
        """The typed response body; raises RemoteProtocolError if it is invalid."""
        body = RPC[self.request_code].response_body_type
        if body is None:
            raise ClientError(f"request {self.request_code} has no typed response body")
        from broker.remoting.protocol.body.base import (
            RESPONSE_LIMITS,
        )  # imported with the body type

        try:
            return body.from_bytes(self.body, RESPONSE_LIMITS)
        except RemoteProtocolError as error:
            raise self._misread(error) from error

    @cached_property
    def properties(self) -> dict[str, str]:
        """The body as ``key=value`` lines; raises RemoteProtocolError if it is not UTF-8."""
        from broker.common.config.properties import parse_properties

        try:
            return parse_properties(self.body.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise self._misread(RemoteProtocolError(f"not UTF-8 text: {error}")) from error

    def read(self) -> None:
        """Decode body or header now, to raise RemoteProtocolError here, not at the first use."""
        if self.code != ResponseCode.SUCCESS:
            return  # other codes have different content
        row = RPC[self.request_code]
        if row.response_body == "text":
            _ = self.properties
        elif row.response_body_type is not None:
            _ = self.value
        elif row.response_header_type is not None:
            _ = self.header

    def _misread(self, error: RemoteProtocolError) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"answer of {self.address} to request {self.request_code}: {error.message}",
            error.hint,
            position=error.position,
        )


class Caller:
    """Calls name servers and brokers over one set of blocking connections.

    ``client`` offers ``call(address, command, timeout_ms=None)``, ``call_all(pairs)`` and
    ``close()`` as :class:`broker.remoting.blocking.BlockingClient` does.
    """

    #: Total timeout of a command, if known: it is divided among the name servers.
    timeout_ms: int | None = None

    def __init__(self, namesrv: Sequence[str], client: Any) -> None:
        if not namesrv:
            raise ClientError("no name server is named", "give at least one host:port")
        self.namesrv_addresses = tuple(namesrv)
        self.client = client
        self._answered = 0  # index of the name server that answered last

    def close(self) -> None:
        """Close every connection."""
        self.client.close()

    def call(
        self,
        address: str,
        code: int,
        body: bytes = b"",
        *,
        accept: Collection[int] = _SUCCESS_ONLY,
        **fields: Any,
    ) -> Reply:
        """Call one peer; ``fields`` are the typed header's, in snake_case.

        Raises BrokerError for a response code not in ``accept``, RemotingError without a response.
        """
        return self.send(address, build_request(code, fields, body), accept=accept)

    def send(
        self,
        address: str,
        command: RemotingCommand,
        *,
        accept: Collection[int] = _SUCCESS_ONLY,
    ) -> Reply:
        """Send a request built by ``build_request``; otherwise as :meth:`call`."""
        return self._check(address, command.code, self._ask(address, command), accept)

    def call_all(
        self,
        requests: Sequence[tuple[str, RemotingCommand]],
        *,
        accept: Collection[int] = _SUCCESS_ONLY,
    ) -> list[Reply | RocketMQError]:
        """Call many peers at once; result i is the reply or the error of request i.

        An invalid response becomes the error of its request and does not affect the others.
        """
        answers: list[Reply | RocketMQError] = []
        if not requests:
            return answers
        for (address, command), answer in zip(requests, self._ask_all(requests), strict=True):
            if isinstance(answer, RocketMQError):
                answers.append(named(answer, address, command.code))
                continue
            try:
                reply = self._check(address, command.code, answer, accept)
                reply.read()
                answers.append(reply)
            except (BrokerError, RemoteProtocolError) as error:
                answers.append(error)
        return answers

    def ask_namesrv(
        self, code: int, *, accept: Collection[int] = _SUCCESS_ONLY, **fields: Any
    ) -> Reply:
        """Call the name servers in turn until one responds; the next call starts with that one.

        TOPIC_NOT_EXIST is raised only if no name server has the topic: brokers may not yet have
        registered at one that has just started. If none responds, the last error is raised.
        """
        last: RocketMQError | None = None
        limit = self.namesrv_limit_ms()
        count = len(self.namesrv_addresses)
        first = self._answered
        for place in [(first + step) % count for step in range(count)]:
            address = self.namesrv_addresses[place]
            command = build_request(code, fields)
            try:
                answer = self._ask(address, command, limit)
                self._answered = place
                return self._check(address, code, answer, accept)
            except BrokerError as error:
                last = error
                if error.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
            except RemotingError as error:
                if not isinstance(last, BrokerError):
                    last = error
        assert last is not None, "a caller has at least one name server"
        raise last

    def namesrv_limit_ms(self) -> int | None:
        """Return the timeout for one of several name servers, which leaves time for the others."""
        count = len(self.namesrv_addresses)
        if count == 1:
            return None
        if self.timeout_ms is None:
            return NAMESRV_TIMEOUT_MS
        return min(NAMESRV_TIMEOUT_MS, self.timeout_ms // count)

    def ask_every_namesrv(
        self, code: int, *, accept: Collection[int] = _SUCCESS_ONLY, **fields: Any
    ) -> list[Reply | RocketMQError]:
        """Call every name server: they share no state, so their responses may differ."""
        return self.call_all(
            [(address, build_request(code, fields)) for address in self.namesrv_addresses],
            accept=accept,
        )

    def _ask(
        self, address: str, command: RemotingCommand, timeout_ms: int | None = None
    ) -> RemotingCommand:
        try:
            answer: RemotingCommand = self.client.call(address, command, timeout_ms)
        except RemotingError as error:
            raise named(error, address, command.code) from error
        return answer

    def _ask_all(
        self, requests: Sequence[tuple[str, RemotingCommand]]
    ) -> list[RemotingCommand | RocketMQError]:
        """Send all requests; subclasses may limit the time or skip requests."""
        answers: list[RemotingCommand | RocketMQError] = self.client.call_all(list(requests))
        return answers

    def _check(
        self, address: str, code: int, answer: RemotingCommand, accept: Collection[int]
    ) -> Reply:
        if answer.code not in accept:
            raise self.refusal(address, code, answer)
        return Reply(address, code, answer)

    def refusal(self, address: str, code: int, answer: RemotingCommand) -> BrokerError:
        """Return the error for a response that is not accepted; subclasses add hints."""
        return BrokerError(answer.code, answer.remark or "", address, request_code=code)


def named(error: RocketMQError, address: str, code: int) -> RocketMQError:
    """Return the error with address and request code filled in if they are missing.

    A broken connection gives all its requests the same error object, so a copy is returned.
    """
    if not isinstance(error, RemotingError) or (error.address and error.request_code >= 0):
        return error
    return type(error)(
        error.message,
        error.hint,
        address=error.address or address,
        request_code=error.request_code if error.request_code >= 0 else code,
    )
