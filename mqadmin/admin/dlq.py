"""Dead letters: which groups have them, and what they are."""

from typing import TYPE_CHECKING

import msgspec

from mqadmin.admin.message import DEFAULT_MAX, BodyView, QueryResult
from mqadmin.admin.result import Listing

if TYPE_CHECKING:
    from mqadmin.admin.session import MQAdmin


class DlqRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The dead letters of one group: messages kept, oldest and newest store time (ms).

    ``growthPerHour`` is the number of messages stored in the last hour.
    """

    group: str
    topic: str
    messages: int
    oldest_timestamp: int | None
    newest_timestamp: int | None
    growth_per_hour: int | None


class DlqAdmin:
    """The questions about dead letters."""

    def __init__(self, admin: "MQAdmin") -> None:
        self._admin = admin

    def list(self, *, group: str | None = None) -> Listing[DlqRecord]:
        """One record per group that has a DLQ topic."""
        raise NotImplementedError

    def show(
        self,
        group: str,
        *,
        max_items: int = DEFAULT_MAX,
        begin_ms: int = 0,
        end_ms: int | None = None,
        body: BodyView | None = None,
    ) -> QueryResult:
        """The dead letters themselves, oldest first."""
        raise NotImplementedError
