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

from broker.remoting.protocol.codes import LANGUAGE, VERSION

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


class RemotingCommand(
    msgspec.Struct,
    forbid_unknown_fields=True,  # so that the fast path notices fields that must survive
    kw_only=True,
    gc=False,
    rename={
        "ext_fields": "extFields",
        "serialize_type": "serializeTypeCurrentRPC",
        "body": "#body",
        "extra": "#extra",
    },
):
    """One frame's content.

    ``code`` request or response code; ``language`` name, or the number of an unknown one;
    ``version`` ordinal of the sender's release; ``opaque`` request id (int32), echoed by the
    response; ``flag`` see the module; ``remark`` text, mostly of errors; ``ext_fields`` the typed
    header's fields as text; ``body`` bytes, or a sequence of buffers to be sent one after the
    other; ``serialize_type`` header form of this frame; ``extra`` header fields nobody declared
    (JSON form only).
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
        """Whether this answers a request."""
        return self.flag & RESPONSE_FLAG != 0

    @property
    def is_oneway(self) -> bool:
        """Whether nobody waits for an answer."""
        return self.flag & ONEWAY_FLAG != 0

    def body_bytes(self) -> bytes:
        """The body in one piece; joins a sequence of buffers."""
        body = self.body
        if isinstance(body, bytes):
            return body
        if isinstance(body, bytearray | memoryview):
            return bytes(body)
        return b"".join(body)


_opaques = count()


def next_opaque() -> int:
    """A request id no earlier request of this process carries (wraps after 2**31).

    **Source:** RocketMQ ``RemotingCommand#createNewRequestId``; Java runs on through the negative
    numbers, which some clients print badly, so ours starts again at 0.
    """
    return next(_opaques) & 0x7FFFFFFF


def request(
    code: int,
    ext: dict[str, str] | None = None,
    body: Body = b"",
    *,
    remark: str | None = None,
    oneway: bool = False,
) -> RemotingCommand:
    """A new request of ours with its own opaque.

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
    """The answer to request ``to``, with its opaque and, as 5.x servers do, a JSON header.

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
