"""The exception hierarchy of the core.

::

    RocketMQError                   message, hint
    ├── ProtocolError               bytes that violate a format
    │   ├── LocalProtocolError        invalid data on this side, before sending or storing
    │   └── RemoteProtocolError       invalid data from a peer or a file
    │       └── ForeignProtocolError    another protocol (HTTP, TLS, gRPC)
    ├── RemotingError               communication with a peer
    │   ├── ConnectError              no connection
    │   ├── SendRequestError          the connection was lost during the request
    │   ├── RequestTimeoutError       no response before the deadline
    │   └── TooMuchRequestError       a limit on requests in flight is reached
    ├── BrokerError                 the peer responded with an error code
    ├── ClientError                 no route, invalid argument, wrong state on this side
    ├── ConfigError                 an option or a configuration key cannot be used
    └── StoreError                  the files of a store
        ├── CorruptRecordError        a file contains an invalid record
        ├── StorePathError            the path does not exist or is not part of a store
        ├── StoreLockedError          another process holds the lock of the store
        ├── StoreStateError           not possible now (stopped, read-only, failed sync)
        ├── DiskFullError             the disk or a limit on it is reached
        ├── DescriptorLimitError      no file descriptor is left; may be retried
        └── FileNameError             a name that is not valid as a file name

A message states object, place and cause; ``hint`` states the next step. Hot paths return statuses;
exceptions are for unexpected conditions.
"""


class RocketMQError(Exception):
    """Base class: ``message`` states object, place and cause, ``hint`` the next step."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ProtocolError(RocketMQError):
    """Bytes that violate a wire or file format."""


class LocalProtocolError(ProtocolError):
    """A value on this side cannot be encoded in the wire or file format."""


class RemoteProtocolError(ProtocolError):
    """Bytes from a peer or a file violate the format.

    ``position`` is the byte in the input at which decoding stopped, -1 if unknown.
    """

    def __init__(self, message: str, hint: str = "", *, position: int = -1) -> None:
        super().__init__(message, hint)
        self.position = position


class ForeignProtocolError(RemoteProtocolError):
    """The bytes belong to another protocol; ``kind`` is its name ("HTTP", "TLS", "gRPC")."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"{kind} bytes on a remoting port",
            "this port speaks the RocketMQ remoting protocol only",
            position=0,
        )
        self.kind = kind


class RemotingError(RocketMQError):
    """A request did not reach its peer, or no response was received.

    ``address`` is the peer as ``host:port``, ``request_code`` the code of the request, -1 if none.
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
    """The connection was lost before the response arrived."""


class RequestTimeoutError(RemotingError):
    """No response arrived before the deadline."""


class TooMuchRequestError(RemotingError):
    """A limit on requests in flight is reached."""


class BrokerError(RocketMQError):
    """The peer responded with an error: ``code`` (ResponseCode), ``remark``, ``address``."""

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
    """A client-side error: no route, an invalid argument, a state that does not allow the call."""


class ConfigError(RocketMQError):
    """An option or a configuration key is invalid; the message names key, value and file."""


class StoreError(RocketMQError):
    """An error concerning the files of a store; ``path`` is the file or directory.

    ``physical_offset`` is the position in the CommitLog, None if not applicable.
    """

    def __init__(
        self, message: str, hint: str = "", *, path: str = "", physical_offset: int | None = None
    ) -> None:
        super().__init__(message, hint)
        self.path = path
        self.physical_offset = physical_offset


class CorruptRecordError(StoreError):
    """A file contains an invalid record: ``path``, ``physical_offset``, ``reason``."""

    def __init__(self, path: str, physical_offset: int, reason: str, hint: str = "") -> None:
        message = f"{path} at physical offset {physical_offset}: {reason}"
        super().__init__(message, hint, path=path, physical_offset=physical_offset)
        self.reason = reason


class StorePathError(StoreError):
    """The given path does not exist or is not part of a store."""


class StoreLockedError(StoreError):
    """Another process holds the lock of the store directory."""


class StoreStateError(StoreError):
    """The operation is not possible in the store's current state."""


class DiskFullError(StoreError):
    """The disk is full, or a configured limit on its usage is reached."""


class DescriptorLimitError(StoreError):
    """No file descriptor is left (EMFILE, ENFILE). Nothing was changed; the call may be retried."""


class FileNameError(StoreError):
    """A topic, queue or file name that is not valid as a file name."""
