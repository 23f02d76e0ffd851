"""Target: the values for sending to one topic, checked once and kept until the topic changes.

**Source:** no Java counterpart; SendMessageProcessor looks the topic up for every message.
"""

from typing import TYPE_CHECKING

from broker.common import sysflag
from broker.common import topic as names
from broker.common.topic import TopicConfig
from broker.server.processor.send.batch_records import BATCH_QUEUE

if TYPE_CHECKING:
    from broker.server.stats import Counter


class Target:
    """The values for sending to one topic; ``slow`` sends every message to the slow path."""

    __slots__ = (
        "batch_queue",
        "config",
        "put_nums",
        "put_size",
        "queue_limit",
        "slow",
        "sys_flag",
    )

    def __init__(self, config: TopicConfig, put_nums: "Counter", put_size: "Counter") -> None:
        self.config = config
        self.queue_limit = max(config.read_queue_nums, config.write_queue_nums)
        multi = config.topic_filter_type == "MULTI_TAG"
        self.sys_flag = sysflag.MULTI_TAGS if multi else 0
        self.slow = names.is_retry_topic(config.topic_name)
        self.batch_queue = BATCH_QUEUE in config.attributes.items()
        self.put_nums = put_nums
        self.put_size = put_size
