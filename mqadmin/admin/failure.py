"""Errors as values, and the hint with the next command.

A request can fail in transport (RemotingError), by the peer's response (BrokerError) or by bytes
that cannot be decoded (ProtocolError). A call to several targets returns each failure as a
:class:`~mqadmin.admin.result.TargetError` with the results of the other targets.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from broker.errors import BrokerError, ClientError, RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode, request_name, response_name
from mqadmin.admin.result import TargetError
from mqadmin.admin.topology import Target
from mqadmin.error_kind import LOOPBACK_ONLY, is_about_access, kind_of

Answer = TypeVar("Answer")

_RULE = "mqadmin acl create --help shows the parts of a rule; a source is 10.0.0.1 or 10.0.0.0/8"

#: (request code, response code) → next step; request code None matches every request.
_HINTS: dict[tuple[int | None, int], str] = {
    (RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.TOPIC_NOT_EXIST): (
        "mqadmin topic list lists the topics"
    ),
    (RequestCode.VIEW_MESSAGE_BY_ID, ResponseCode.SYSTEM_ERROR): (
        "mqadmin msg decode-id ID shows the fields of the id"
    ),
    (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ResponseCode.SYSTEM_ERROR): (
        "mqadmin offset show GROUP shows which queues have a committed offset"
    ),
    (RequestCode.UPDATE_BROKER_CONFIG, ResponseCode.NO_PERMISSION): (
        "change it in the broker's configuration file and restart the broker; "
        "mqadmin broker config show shows the present value"
    ),
    (RequestCode.UPDATE_NAMESRV_CONFIG, ResponseCode.NO_PERMISSION): (
        "change it in the name server's configuration file and restart the name server; "
        "mqadmin namesrv config show shows the present value"
    ),
    (RequestCode.AUTH_GET_ACL, ResponseCode.NO_PERMISSION): "mqadmin user list lists the users",
    (RequestCode.AUTH_CREATE_ACL, ResponseCode.NO_PERMISSION): _RULE,
    (RequestCode.AUTH_UPDATE_ACL, ResponseCode.NO_PERMISSION): _RULE,
    (None, ResponseCode.SYSTEM_BUSY): "the broker is busy: try again, or see mqadmin broker status",
    (None, ResponseCode.REQUEST_CODE_NOT_SUPPORTED): (
        "mqadmin cluster list shows the version of each broker"
    ),
    (None, ResponseCode.SERVICE_NOT_AVAILABLE): (
        "the store takes no writes (disk full, slave, or shutting down): mqadmin broker status"
    ),
    (None, ResponseCode.NO_PERMISSION): (
        "mqadmin topic perm, mqadmin group show, or --access-key and --secret-key-file"
    ),
    (None, ResponseCode.TOPIC_NOT_EXIST): "mqadmin topic create TOPIC creates it",
    (None, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST): "mqadmin group create GROUP creates it",
    (None, ResponseCode.CONSUMER_NOT_ONLINE): "mqadmin consumer lag GROUP works without a client",
}

_NO_ACL = (
    "the broker has access control enabled: give --access-key and --secret-key-file, "
    "or ask its owner for this permission"
)

_FROM_ITS_HOST = "run the command on that host, or set allowRemoteAdmin=true there"


def hint_for(request_code: int, response_code: int, remark: str = "") -> str:
    """Return the next step after a refusal; empty when the remark is all that is known."""
    if LOOPBACK_ONLY in remark:
        return _FROM_ITS_HOST
    if is_about_access(response_code, remark):
        return _NO_ACL
    specific = _HINTS.get((request_code, response_code))
    return specific if specific is not None else _HINTS.get((None, response_code), "")


def refusal(address: str, request_code: int, response_code: int, remark: str | None) -> BrokerError:
    """Build the error for a response code that the request does not accept."""
    text = (remark or "").strip() or "no remark"
    error = BrokerError(
        response_code,
        text,
        address,
        request_code=request_code,
        hint=hint_for(request_code, response_code, text),
    )
    asked, answered = request_name(request_code), response_name(response_code)
    first, _, rest = text.partition("\n")
    error.message = f"{asked} ({address}): {answered} ({response_code}): {first}" + (
        " …" if rest.strip() else ""
    )
    error.args = (error.message,)
    return error


def describe(error: RocketMQError, *, address: str = "", target: str | None = None) -> TargetError:
    """Convert an error to a record."""
    kind, response_code = kind_of(error), None
    if isinstance(error, BrokerError):
        response_code = error.code
    where = getattr(error, "address", "") or address
    code = getattr(error, "request_code", -1)
    return TargetError(
        kind=kind,
        message=error.message,
        hint=error.hint,
        address=where or None,
        request_code=code if code >= 0 else None,
        response_code=response_code,
        target=target,
    )


def part_errors(
    targets: Iterable[Target], answers: Iterable[Answer | RocketMQError]
) -> tuple[list[tuple[Target, Answer]], list[TargetError]]:
    """Split into (target, result) pairs and the errors of the other targets as records."""
    good: list[tuple[Target, Answer]] = []
    errors: list[TargetError] = []
    for target, answer in zip(targets, answers, strict=True):
        if isinstance(answer, RocketMQError):
            errors.append(describe(answer, address=target.address, target=target.label))
        else:
            good.append((target, answer))
    return good, errors


def having(
    targets: Sequence[Target],
    answers: Iterable[Answer | RocketMQError | None],
    missing: ClientError,
) -> tuple[Sequence[tuple[Target, Answer]], Sequence[TargetError]]:
    """Return the targets with a result, and the errors; raise ``missing`` if all are None."""
    good, errors = part_errors(targets, answers)
    found = [(target, answer) for target, answer in good if answer is not None]
    if not found and not errors:
        raise missing
    return found, errors
