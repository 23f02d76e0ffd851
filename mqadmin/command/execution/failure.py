"""Errors to exit statuses and reports: the only table that maps errors to both."""

from typing import Any

from broker import errors
from mqadmin.command.execution.status import (
    DAMAGED,
    DEFECT,
    INTERRUPTED,
    MOVED,
    NO,
    NOT_PERMITTED,
    PARTLY,
    REFUSED,
    UNREACHABLE,
    USAGE,
)
from mqadmin.error_kind import kind_of
from mqadmin.output.errors import ErrorReport
from mqadmin.output.stdio import OutputError

#: The noun whose verbs have the statuses of monitoring plug-ins; a failure is unknown there.
CHECK_NOUN = "check"
CHECK_UNKNOWN = 3


class UsageFault(errors.RocketMQError):
    """The command line is invalid or incomplete."""


class ReadOnlyFault(errors.RocketMQError):
    """A change of a cluster whose context is read-only."""


class MovedFault(errors.RocketMQError):
    """The cluster is no longer as a plan found it."""


class NoResults(errors.RocketMQError):
    """The query succeeded without a result."""


# First match wins: subclasses precede their base classes.
FAILURES: tuple[tuple[type[BaseException], str, int], ...] = (
    (UsageFault, "usage", USAGE),
    (NoResults, "notFound", NO),
    (ReadOnlyFault, "notPermitted", NOT_PERMITTED),
    (MovedFault, "moved", MOVED),
    (errors.RequestTimeoutError, "timeout", UNREACHABLE),
    (errors.ConnectError, "unreachable", UNREACHABLE),
    (errors.RemotingError, "unreachable", UNREACHABLE),
    (errors.BrokerError, "refused", REFUSED),
    (errors.ForeignProtocolError, "protocol", UNREACHABLE),
    (errors.LocalProtocolError, "usage", USAGE),
    (errors.ProtocolError, "protocol", REFUSED),
    (errors.CorruptRecordError, "damaged", DAMAGED),
    (errors.StorePathError, "usage", USAGE),
    (errors.StoreLockedError, "locked", REFUSED),
    # The output does not fit on the disk; the store that was read is not damaged.
    (errors.DiskFullError, "output", PARTLY),
    (errors.StoreError, "store", DAMAGED),
    (errors.ConfigError, "usage", USAGE),
    (errors.ClientError, "client", NO),
    (errors.RocketMQError, "error", REFUSED),
)

WRONG_PATHS = (FileNotFoundError, IsADirectoryError, NotADirectoryError)

# mqadmin.admin.result.TargetError.kind → exit status
TARGET_KINDS: dict[str, int] = {
    "unreachable": UNREACHABLE,
    "timeout": UNREACHABLE,
    "refused": REFUSED,
    "notPermitted": NOT_PERMITTED,
    "protocol": REFUSED,
    "client": NO,
    "moved": MOVED,
    "differs": MOVED,
}

# Response codes for "does not exist": no result (status 1) rather than a refusal.
# TOPIC_NOT_EXIST, QUERY_NOT_FOUND, SUBSCRIPTION_NOT_EXIST, SUBSCRIPTION_GROUP_NOT_EXIST,
# CONSUMER_NOT_ONLINE
NOT_THERE_CODES = frozenset({17, 22, 24, 26, 206})


def status_of(error: BaseException) -> int:
    """Return the exit status of an error."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, OutputError):
        return PARTLY
    if isinstance(error, errors.BrokerError):
        return target_status(kind_of(error), error.code)
    for kind, _, status in FAILURES:
        if isinstance(error, kind):
            return status
    if isinstance(error, WRONG_PATHS):
        return USAGE
    return DAMAGED if isinstance(error, OSError) else DEFECT


def report_of(error: BaseException) -> ErrorReport:
    """Build the report of an error."""
    if isinstance(error, errors.BrokerError):
        return ErrorReport(
            kind_of(error),
            error.message,
            error.hint,
            address=error.address,
            request_code=error.request_code if error.request_code >= 0 else None,
            response_code=error.code,
        )
    if isinstance(error, errors.RocketMQError):
        kind = next(kind for cls, kind, _ in FAILURES if isinstance(error, cls))
        where: dict[str, Any] = {}
        if isinstance(error, errors.RemotingError):
            where["address"] = error.address
            where["request_code"] = error.request_code if error.request_code >= 0 else None
        if isinstance(error, errors.StoreError):
            where["path"] = error.path
            where["physical_offset"] = error.physical_offset
        return ErrorReport(kind, error.message, error.hint, **where)
    if isinstance(error, OutputError):
        return ErrorReport("output", f"cannot write the output: {error.strerror}")
    if isinstance(error, OSError):
        path = str(error.filename) if error.filename is not None else ""
        reason = error.strerror or str(error)
        message = f"{path}: {reason}" if path else reason
        if isinstance(error, WRONG_PATHS):
            return ErrorReport("usage", message, "is the path right?", path=path)
        return ErrorReport("store", message, path=path)
    return ErrorReport(
        "defect",
        f"{type(error).__name__}: {error}",
        "this is a defect of mqadmin; -v prints where it happened",
    )


def target_status(kind: str, response_code: int | None) -> int:
    """Return the exit status of a failed target when no other target succeeded."""
    if kind == "refused" and response_code in NOT_THERE_CODES:
        return NO
    return TARGET_KINDS.get(kind, REFUSED)


def target_report(error: Any) -> ErrorReport:
    """Build the report of a failed target."""
    return ErrorReport(
        error.kind,
        error.message,
        error.hint,
        address=error.address,
        path=error.path,
        request_code=error.request_code,
        response_code=error.response_code,
        physical_offset=error.physical_offset,
    )
