from collections.abc import Iterator
from typing import Any

import pytest

from broker import errors
from mqadmin.command.execution.failure import (
    DEFECT,
    FAILURES,
    TARGET_KINDS,
    NoResults,
    UsageFault,
    report_of,
    status_of,
)


def family(cls: type[BaseException]) -> Iterator[type[BaseException]]:
    yield cls
    for child in cls.__subclasses__():
        yield from family(child)


def test_every_error_of_the_tree_is_in_the_table() -> None:
    for cls in family(errors.RocketMQError):
        assert any(issubclass(cls, entry) for entry, _, _ in FAILURES), cls


def test_no_entry_of_the_table_is_shadowed_by_a_wider_one() -> None:
    seen: list[type[BaseException]] = []
    for entry, _, _ in FAILURES:
        assert not any(issubclass(entry, earlier) for earlier in seen), entry
        seen.append(entry)


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (UsageFault("x"), "usage", 2),
        (NoResults("x"), "notFound", 1),
        (errors.ConfigError("x"), "usage", 2),
        (errors.ClientError("x"), "client", 1),
        (errors.ConnectError("x", address="h:1"), "unreachable", 3),
        (errors.SendRequestError("x"), "unreachable", 3),
        (errors.RequestTimeoutError("x"), "timeout", 3),
        (errors.TooMuchRequestError("x"), "unreachable", 3),
        (errors.ForeignProtocolError("HTTP"), "protocol", 3),
        (errors.RemoteProtocolError("x"), "protocol", 4),
        (errors.BrokerError(2, "busy", "h:1"), "refused", 4),
        (errors.BrokerError(17, "none", "h:1"), "refused", 1),
        (errors.StoreError("x", path="/s"), "store", 7),
        (errors.CorruptRecordError("/s", 5, "bad"), "damaged", 7),
        (PermissionError(13, "Permission denied", "/s"), "store", 7),
        (FileNotFoundError(2, "No such file or directory", "/s"), "usage", 2),
        (IsADirectoryError(21, "Is a directory", "/s"), "usage", 2),
        (NotADirectoryError(20, "Not a directory", "/s"), "usage", 2),
        (ValueError("x"), "defect", DEFECT),
    ],
)
def test_an_error_has_one_kind_and_one_status(error: Any, kind: str, status: int) -> None:
    assert status_of(error) == status
    assert report_of(error).kind == kind


def test_an_error_names_the_place() -> None:
    report = report_of(errors.CorruptRecordError("/s", 5, "bad"))
    assert (report.path, report.physical_offset) == ("/s", 5)
    report = report_of(errors.ConnectError("x", address="h:1", request_code=105))
    assert (report.address, report.request_code) == ("h:1", 105)
    assert report_of(PermissionError(13, "Permission denied", "/s")).message == (
        "/s: Permission denied"
    )


def test_every_kind_of_a_failed_target_has_a_status() -> None:
    from mqadmin.admin.result import TargetError

    text = TargetError.__doc__ or ""
    named = {word.strip("`,.") for word in text.split() if word.startswith("``")}
    assert set(TARGET_KINDS) >= named - {"kind"}
