"""Requests by code and typed fields, answers as typed values.

Both directions come from the switchboard (:data:`broker.remoting.protocol.rpc.RPC`): it names the
header and body types of each request code, and only the types of codes in use are loaded.
"""

from collections.abc import Mapping, Sequence
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

#: How long one of several name servers may keep us from the next one.
NAMESRV_TIMEOUT_MS = 3_000

#: The answer that every accept list holds unless told otherwise.
_SUCCESS_ONLY = (ResponseCode.SUCCESS,)


def build_request(code: int, fields: Mapping[str, Any], body: bytes = b"") -> RemotingCommand:
    """A request frame for ``code``; ``fields`` are its header's, snake_case, None left out.

    ClientError when the code takes no such field.
    """
    ext: dict[str, str] = {}
    if fields:
        header = RPC[code].request_header_type
        if header is None:
            raise ClientError(f"request {code} takes no header fields")
        ext = encode_header_fields(header(**fields))
    return request(code, ext, body)


class Reply:
    """One accepted answer of ``address`` to request ``code``."""

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
        """The body in one piece."""
        return self.command.body_bytes()

    @cached_property
    def header(self) -> Any:
        """The typed response header; RemoteProtocolError for a missing field."""
        header = RPC[self.request_code].response_header_type
        if header is None:
            raise ClientError(f"request {self.request_code} has no response header")
        try:
            return decode_header_fields(header, self.command.ext_fields)
        except RemoteProtocolError as error:
            raise self._misread(error) from error

    @cached_property
    def value(self) -> Any:
        """The typed response body; RemoteProtocolError when it cannot be read."""
        body = RPC[self.request_code].response_body_type
        if body is None:
            raise ClientError(f"request {self.request_code} has no typed response body")
        try:
            return body.from_bytes(self.body)
        except RemoteProtocolError as error:
            raise self._misread(error) from error

    @cached_property
    def properties(self) -> dict[str, str]:
        """The body as ``key=value`` lines; RemoteProtocolError when it is no text."""
        from broker.common.properties import parse_properties

        try:
            return parse_properties(self.body.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise self._misread(RemoteProtocolError(f"not UTF-8 text: {error}")) from error

    def read(self) -> None:
        """Decode now what will be used: RemoteProtocolError here instead of at the first use."""
        if self.code != ResponseCode.SUCCESS:
            return  # what else an answer carries depends on its code
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
    """Asks name servers and brokers over one set of blocking connections.

    ``client`` offers ``call(address, command, timeout_ms=None)``, ``call_all(pairs)`` and
    ``close()`` as :class:`broker.remoting.blocking.BlockingClient` does.
    """

    #: What everything together may take, where the caller knows it: no name server gets it all.
    timeout_ms: int | None = None

    def __init__(self, namesrv: Sequence[str], client: Any) -> None:
        if not namesrv:
            raise ClientError("no name server is named", "give at least one host:port")
        self.namesrv_addresses = tuple(namesrv)
        self.client = client
        self._answered = 0  # place of the name server that answered last

    def close(self) -> None:
        """Close every connection."""
        self.client.close()

    def call(
        self,
        address: str,
        code: int,
        body: bytes = b"",
        *,
        accept: Sequence[int] = _SUCCESS_ONLY,
        **fields: Any,
    ) -> Reply:
        """Ask one peer; ``fields`` are the typed header's, in snake_case.

        BrokerError for an answer whose code is not in ``accept``, RemotingError without answer.
        """
        return self.send(address, build_request(code, fields, body), accept=accept)

    def send(
        self,
        address: str,
        command: RemotingCommand,
        *,
        accept: Sequence[int] = _SUCCESS_ONLY,
    ) -> Reply:
        """Send a request that is already built; as :meth:`call` otherwise."""
        return self._check(address, command.code, self._ask(address, command), accept)

    def call_all(
        self,
        requests: Sequence[tuple[str, RemotingCommand]],
        *,
        accept: Sequence[int] = _SUCCESS_ONLY,
    ) -> list[Reply | RocketMQError]:
        """Ask many peers at once; each place holds its answer or its error.

        An answer that cannot be read is an error of its own place, not of the whole.
        """
        answers: list[Reply | RocketMQError] = []
        if not requests:
            return answers
        for (address, command), answer in zip(
            requests, self.client.call_all(list(requests)), strict=True
        ):
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
        self, code: int, *, accept: Sequence[int] = _SUCCESS_ONLY, **fields: Any
    ) -> Reply:
        """Ask the name servers in turn until one answers; the next question begins with that one.

        TOPIC_NOT_EXIST is passed on only when no name server knows better: one that has just
        started may not have heard of the topic yet. The last error is raised when none answers.
        """
        last: RocketMQError | None = None
        limit = self._namesrv_limit_ms()
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

    def _namesrv_limit_ms(self) -> int | None:
        """How long one of several name servers may be silent: the others need time, too."""
        count = len(self.namesrv_addresses)
        if count == 1:
            return None
        if self.timeout_ms is None:
            return NAMESRV_TIMEOUT_MS
        return min(NAMESRV_TIMEOUT_MS, self.timeout_ms // count)

    def ask_every_namesrv(
        self, code: int, *, accept: Sequence[int] = _SUCCESS_ONLY, **fields: Any
    ) -> list[Reply | RocketMQError]:
        """Ask every name server: they share nothing, so each has its own answer."""
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

    def _check(
        self, address: str, code: int, answer: RemotingCommand, accept: Sequence[int]
    ) -> Reply:
        if answer.code not in accept:
            raise self.refusal(address, code, answer)
        return Reply(address, code, answer)

    def refusal(self, address: str, code: int, answer: RemotingCommand) -> BrokerError:
        """The error for an answer that is not accepted; subclasses add their hints."""
        return BrokerError(answer.code, answer.remark or "", address, request_code=code)


def named(error: RocketMQError, address: str, code: int) -> RocketMQError:
    """The error with the peer and the request it is about, where the way there did not say.

    One broken connection is one error for every request on it, so a copy is filled in.
    """
    if not isinstance(error, RemotingError) or (error.address and error.request_code >= 0):
        return error
    return type(error)(
        error.message,
        error.hint,
        address=error.address or address,
        request_code=error.request_code if error.request_code >= 0 else code,
    )
