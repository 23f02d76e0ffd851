"""A producer and its broker core: prepare, end, check, with a manual clock."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.common.topic import (
    TRANS_HALF_TOPIC,
)
from broker.message.message import MessageExt
from tests.support.ledger import GROUP, Ledger


@pytest.fixture
def make_ledger(make_desk: Callable[..., Any]) -> Callable[..., Ledger]:
    """``make_ledger(key=value, …)``: a producer at a broker with these broker.conf keys."""
    return lambda **properties: Ledger(make_desk(**properties))


@pytest.fixture
def ledger(make_ledger: Callable[..., Ledger]) -> Ledger:
    """A producer at a broker with default settings."""
    return make_ledger()


@pytest.fixture
def half_message() -> Callable[..., MessageExt]:
    """``half_message(properties, born_ms=…)``: a record of the half queue."""

    def make(properties: dict[str, str] | None = None, **fields: Any) -> MessageExt:
        from broker.message.properties import encode_properties

        given = {
            "TRAN_MSG": "true",
            "PGROUP": GROUP,
            "UNIQ_KEY": "U1",
            "REAL_TOPIC": "Orders",
            "REAL_QID": "1",
            **(properties or {}),
        }
        raw = encode_properties({name: value for name, value in given.items() if value})
        return MessageExt(
            **{
                "topic": TRANS_HALF_TOPIC,
                "body": b"hello",
                "properties_raw": raw,
                "queue_offset": 7,
                "physical_offset": 700,
                "born_timestamp": 1_000_000,
                "store_timestamp": 1_000_005,
                **fields,
            }
        )

    return make
