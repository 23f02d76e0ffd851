"""The row of a change in JSON, YAML and CSV."""

from collections.abc import Mapping
from typing import Any

import msgspec


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One target of a change.

    ``status``: ``planned`` (a dry run), ``done`` (read back as planned), ``unchanged``,
    ``failed``, ``skipped``, ``moved`` (no longer as planned, nothing sent), ``differs``.
    """

    target: str
    address: str
    action: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    read_back: Mapping[str, Any] | None
    status: str
    note: str | None
