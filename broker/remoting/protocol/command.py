"""RemotingCommand: one request or response, header and body.

::

    flag   bit 0: response    bit 1: one-way request

**Source:** RocketMQ ``RemotingCommand``.
"""

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from broker.remoting.protocol.codes import LANGUAGE, VERSION, RequestCode

if TYPE_CHECKING:
    Buffer: TypeAlias = bytes | bytearray | memoryview
    Body: TypeAlias = Buffer | Sequence[Buffer]
else:
    Body = Any  # never decoded from JSON; msgspec has no reader for the union

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2

JSON = "JSON"
ROCKETMQ = "ROCKETMQ"

SERVED_AFTER_CLOSE = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.END_TRANSACTION,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.UNLOCK_BATCH_MQ,
        RequestCode.ACK_MESSAGE,
        RequestCode.BATCH_ACK_MESSAGE,
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
    }
)
"""Requests whose effect remains when their connection is closed, unlike heartbeats and pulls."""


class RemotingCommand(
    msgspec.Struct,
    forbid_unknown_fields=True,  # the fast path must fail on unknown fields, which have to be kept
    kw_only=True,
    gc=False,
    rename={
        "ext_fields": "extFields",
        "serialize_type": "serializeTypeCurrentRPC",
        "body": "#body",
        "extra": "#extra",
    },
):
    """The content of one frame.

    ``code`` request or response code; ``language`` name, or the number of an unknown one;
    ``version`` ordinal of the sender's release; ``opaque`` request id (int32), repeated in the
    response; ``flag`` see the module docstring; ``remark`` text, mostly of errors; ``ext_fields``
    the typed header's fields as text; ``body`` bytes, or a sequence of buffers to send in order;
    ``serialize_type`` header form of this frame; ``extra`` undeclared header fields (JSON form
    only).
    """

    code: Int32 = 0
    language: str | int | None = "JAVA"
    version: Int32 = 0
    opaque: Int32 = 0
    flag: Int32 = 0
    remark: str | None = None
    ext_fields: dict[str, str] = {}
    serialize_type: str = JSON
    body: Body = b""
    extra: dict[str, Any] | None = None

    @property
    def is_response(self) -> bool:
        """Whether this is a response."""
        return self.flag & RESPONSE_FLAG != 0

    @property
    def is_oneway(self) -> bool:
        """Whether this is a one-way request, which gets no response."""
        return self.flag & ONEWAY_FLAG != 0

    @property
    def is_served_after_close(self) -> bool:
        """Whether this request is served although its connection is closed.

        One-way requests, and those of SERVED_AFTER_CLOSE: the Go client 2.1.2 does not set bit 1 in
        its one-way sends, commits and ends of transactions.

        **Source:** RocketMQ ``NettyRemotingAbstract#processRequestCommand`` (serves all codes).
        """
        return not self.is_response and (self.is_oneway or self.code in SERVED_AFTER_CLOSE)

    def body_bytes(self) -> bytes:
        """Return the body as one bytes object; joins a sequence of buffers."""
        body = self.body
        if isinstance(body, bytes):
            return body
        if isinstance(body, bytearray | memoryview):
            return bytes(body)
        return b"".join(body)


opaques = count()


def next_opaque() -> int:
    """Return a request id not used before by this process (wraps after 2**31).

    **Source:** RocketMQ ``RemotingCommand#createNewRequestId``; Java continues with negative
    numbers, which some clients print incorrectly, so this counter restarts at 0.
    """
    return next(opaques) & 0x7FFFFFFF


def request(
    code: int,
    ext: dict[str, str] | None = None,
    body: Body = b"",
    *,
    remark: str | None = None,
    oneway: bool = False,
) -> RemotingCommand:
    """Create a request with a new opaque.

    **Source:** RocketMQ ``RemotingCommand#createRequestCommand``.
    """
    return RemotingCommand(
        code=code,
        language=LANGUAGE,
        version=VERSION,
        opaque=next_opaque(),
        flag=ONEWAY_FLAG if oneway else 0,
        remark=remark,
        ext_fields={} if ext is None else ext,
        body=body,
    )


def response(
    to: RemotingCommand,
    code: int = 0,
    remark: str | None = None,
    ext: dict[str, str] | None = None,
    body: Body = b"",
) -> RemotingCommand:
    """Create the response to request ``to`` with its opaque and, as in 5.x, a JSON header.

    **Source:** RocketMQ ``RemotingCommand#createResponseCommand``.
    """
    return RemotingCommand(
        code=code,
        language=LANGUAGE,
        version=VERSION,
        opaque=to.opaque,
        flag=RESPONSE_FLAG,
        remark=remark,
        ext_fields={} if ext is None else ext,
        body=body,
    )
