"""``mqadmin consumer stats``: its columns and options."""

import json
from collections.abc import Callable
from typing import Any

from mqadmin.admin.clients.consume_stats import ConsumeStatsRecord
from mqadmin.admin.result import Listing

Run = Callable[..., Any]


def test_the_lag_of_each_queue_is_shown(mqadmin: Run, admin: Any) -> None:
    row = ConsumeStatsRecord(
        group="g",
        topic="t",
        broker_name="broker-a",
        queue_id=0,
        broker_offset=9,
        consumer_offset=4,
        lag=5,
        last_timestamp=1_700_000_000_000,
    )
    admin.answers["consume_stats.stats"] = Listing(items=[row])
    done = mqadmin("consumer", "stats", "--min-lag", "5", "--broker", "broker-a", "-o", "json")
    assert json.loads(done.out)["items"][0]["lag"] == 5
    assert admin.calls[0][2] == {"cluster": None, "broker": "broker-a", "min_lag": 5}
