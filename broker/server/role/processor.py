"""GET_BROKER_ROLE, CHANGE_BROKER_ROLE, GET_LOG_CHECKSUM, and GET_BROKER_EPOCH_CACHE.

The first three are requests of this project; a Java broker answers REQUEST_CODE_NOT_SUPPORTED.
"""

import asyncio
import zlib
from typing import TYPE_CHECKING, Final

from broker.errors import RocketMQError
from broker.remoting.protocol.body.ha import EpochEntryCache
from broker.remoting.protocol.body.role import RoleProperties
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.fields import decode_header_fields, encode_header_fields
from broker.remoting.protocol.header.role import (
    ChangeBrokerRoleRequestHeader,
    GetLogChecksumRequestHeader,
    GetLogChecksumResponseHeader,
)
from broker.server.context import BrokerContext
from broker.server.role.broker_role import BrokerRole

if TYPE_CHECKING:
    from broker.remoting.server import Connection

MAX_CHECKSUM_BYTES: Final = 8 << 20
SLICE_BYTES: Final = 1 << 20

_UNCHANGEABLE: Final = (
    "the role of this broker cannot be changed: it runs in one process with its name server"
)


def get_role(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_BROKER_ROLE: role, epoch, votes, fence, and the end of the log."""
    if context.role is None:
        return response(request, ResponseCode.SYSTEM_ERROR, _UNCHANGEABLE)
    return response(request, body=context.role.info().to_bytes())


async def change_role(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """CHANGE_BROKER_ROLE: one step of a switch; the answer is the state after it."""
    if context.role is None:
        return response(request, ResponseCode.SYSTEM_ERROR, _UNCHANGEABLE)
    header = decode_header_fields(ChangeBrokerRoleRequestHeader, request.ext_fields)
    body = request.body_bytes()
    properties = RoleProperties.from_bytes(body).properties if body else {}
    try:
        await _step(context.role, header, properties)
    except (RocketMQError, OSError) as error:
        remark = f"{header.action}: {error}"
        if isinstance(error, RocketMQError) and error.hint:
            remark += f"; {error.hint}"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    return response(request, body=context.role.info().to_bytes())


async def _step(
    role: BrokerRole, header: ChangeBrokerRoleRequestHeader, properties: dict[str, str]
) -> None:
    if role.changing:
        raise RocketMQError("a role change is under way", "try again in a second")
    match header.action:
        case "fence":
            await role.fence(header.epoch, header.target)
        case "synchronize":
            await role.synchronize()
        case "promote":
            await role.promote(header.epoch, header.expected_offset, properties)
        case "demote":
            await role.demote(header.epoch, header.broker_id)
        case _:
            raise RocketMQError(
                f"{header.action!r} is not a step", "one of fence, synchronize, promote, demote"
            )


def epoch_cache(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_BROKER_EPOCH_CACHE: the terms of mastership that this broker knows.

    **Source:** RocketMQ AdminBrokerProcessor#getBrokerEpochCache. Java answers this error without
    controller mode.
    """
    if context.role is None or not context.role.state.epochs:
        return response(request, ResponseCode.SYSTEM_ERROR, "this request only for controllerMode ")
    info = context.role.info()
    body = EpochEntryCache(
        cluster_name=info.cluster_name,
        broker_name=info.broker_name,
        broker_id=info.broker_id,
        epoch_list=info.epochs,
        max_offset=info.max_offset,
    )
    return response(request, body=body.to_bytes())


async def log_checksum(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_LOG_CHECKSUM: CRC-32 of a part of the CommitLog, computed in slices."""
    header = decode_header_fields(GetLogChecksumRequestHeader, request.ext_fields)
    commit_log = context.store.log
    start, end = header.physical_offset, commit_log.max_offset
    if not 0 < header.size <= MAX_CHECKSUM_BYTES or not commit_log.min_offset <= start <= end:
        remark = (
            f"{header.size} bytes at physical offset {start}: the log has {commit_log.min_offset}"
            f" to {end}, and a request 1 to {MAX_CHECKSUM_BYTES} bytes"
        )
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    offset, stop, crc = start, min(end, start + header.size), 0
    loop = asyncio.get_running_loop()
    while offset < stop:
        rest = commit_log.rest_of_file(offset)
        if rest is None:
            remark = f"physical offset {offset} is not in the log any more"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        with rest, rest[: min(SLICE_BYTES, stop - offset)] as part:
            # In a thread: cold pages would block the event loop.
            crc = await loop.run_in_executor(None, zlib.crc32, part, crc)
            offset += len(part)
    reply = GetLogChecksumResponseHeader(crc=crc, size=offset - start)
    return response(request, ext=encode_header_fields(reply))


HANDLERS = {
    RequestCode.GET_BROKER_ROLE: get_role,
    RequestCode.CHANGE_BROKER_ROLE: change_role,
    RequestCode.GET_BROKER_EPOCH_CACHE: epoch_cache,
    RequestCode.GET_LOG_CHECKSUM: log_checksum,
}
