"""Every error of the core, in one tree.

::

    RocketMQError                   message, hint
    ├── ProtocolError               bytes that break the rules
    │   ├── LocalProtocolError        ours: we were about to send or store them
    │   └── RemoteProtocolError       theirs: a peer or a file gave them to us
    │       └── ForeignProtocolError    another protocol altogether (HTTP, TLS, gRPC)
    ├── RemotingError               the way to a peer
    │   ├── ConnectError              no connection
    │   ├── SendRequestError          the connection broke under the request
    │   ├── RequestTimeoutError       no answer in time
    │   └── TooMuchRequestError       a limit on requests in flight is reached
    ├── BrokerError                 the peer answered with an error code
    ├── ClientError                 no route, bad argument, wrong state on our side
    ├── ConfigError                 an option or a configuration key cannot be used
    └── StoreError                  the files of a store
        ├── CorruptRecordError        a file holds something that is no record
        ├── StoreLockedError          another process owns the store
        ├── StoreStateError           the store cannot do this now (stopped, read-only, failed sync)
        └── DiskFullError             the disk or a limit on it is reached

An error names the thing, the place and the cause; ``hint`` names the next step.
Hot paths return statuses instead: exceptions are for surprises.
"""


class RocketMQError(Exception):
    """Root of the tree: ``message`` says what, where and why, ``hint`` what to do next."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ProtocolError(RocketMQError):
    """Bytes that break a wire or file format."""


class LocalProtocolError(ProtocolError):
    """We were about to produce bytes that no peer could read."""


class RemoteProtocolError(ProtocolError):
    """A peer or a file gave us bytes that break the format.

    ``position`` is the byte in the input where reading stopped, -1 if there is none to name.
    """

    def __init__(self, message: str, hint: str = "", *, position: int = -1) -> None:
        super().__init__(message, hint)
        self.position = position


class ForeignProtocolError(RemoteProtocolError):
    """The bytes belong to another protocol; ``kind`` names it ("HTTP", "TLS", "gRPC")."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"{kind} bytes on a remoting port",
            "this port speaks the RocketMQ remoting protocol only",
            position=0,
        )
        self.kind = kind


class RemotingError(RocketMQError):
    """A request did not reach its peer, or its answer did not come back.

    ``address`` is the peer as ``host:port``, ``request_code`` the code asked, -1 if none.
    """

    def __init__(
        self, message: str, hint: str = "", *, address: str = "", request_code: int = -1
    ) -> None:
        super().__init__(message, hint)
        self.address = address
        self.request_code = request_code


class ConnectError(RemotingError):
    """No connection to the peer."""


class SendRequestError(RemotingError):
    """The connection broke before the answer came."""


class RequestTimeoutError(RemotingError):
    """The answer did not come before the deadline."""


class TooMuchRequestError(RemotingError):
    """A limit on requests in flight is reached."""


class BrokerError(RocketMQError):
    """The peer answered with an error: ``code`` (ResponseCode), ``remark``, ``address``."""

    def __init__(
        self, code: int, remark: str, address: str = "", *, request_code: int = -1, hint: str = ""
    ) -> None:
        where = f" ({address})" if address else ""
        super().__init__(f"response code {code}{where}: {remark}", hint)
        self.code = code
        self.remark = remark
        self.address = address
        self.request_code = request_code


class ClientError(RocketMQError):
    """A client-side no: no route, a bad argument, a state that does not allow the call."""


class ConfigError(RocketMQError):
    """An option or a configuration key cannot be used; the message names key, value and file."""


class StoreError(RocketMQError):
    """Something about the files of a store; ``path`` names the file or folder.

    ``physical_offset`` is the place in the log, None where there is none to name.
    """

    def __init__(
        self, message: str, hint: str = "", *, path: str = "", physical_offset: int | None = None
    ) -> None:
        super().__init__(message, hint)
        self.path = path
        self.physical_offset = physical_offset


class CorruptRecordError(StoreError):
    """A file holds bytes that are no record: ``path``, ``physical_offset``, ``reason``."""

    def __init__(self, path: str, physical_offset: int, reason: str, hint: str = "") -> None:
        message = f"{path} at physical offset {physical_offset}: {reason}"
        super().__init__(message, hint, path=path, physical_offset=physical_offset)
        self.reason = reason


class StoreLockedError(StoreError):
    """Another process holds the lock of the store directory."""


class StoreStateError(StoreError):
    """The store cannot do this in its present state."""


class DiskFullError(StoreError):
    """No space: the disk, or a limit set on it, is reached."""
