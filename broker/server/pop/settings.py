"""Settings of pop consumption: key in broker.conf, unit and meaning of each field of BrokerConfig.

**Source:** RocketMQ BrokerConfig (names and defaults).
"""

from typing import Final

from broker.common.config.settings import HOUR_MS, INT_MAX, Setting

POP_SETTINGS: Final[dict[str, Setting]] = {
    "default_message_request_mode": Setting(
        "defaultMessageRequestMode", "", "PULL or POP: how groups without a mode consume", live=True
    ),
    "default_pop_share_queue_num": Setting(
        "defaultPopShareQueueNum",
        "members",
        "members whose queues a popping member shares; 0 or less: all",
        live=True,
        bounds=(-1, 10_000),
    ),
    "server_load_balancer_enable": Setting(
        "serverLoadBalancerEnable", "", "distribute queues in assignment requests", live=True
    ),
    "enable_pop_buffer_merge": Setting(
        "enablePopBufferMerge",
        "",
        "merge check points and acks in memory before they are written",
        live=True,
    ),
    "enable_pop_batch_ack": Setting(
        "enablePopBatchAck", "", "write the merged acks of a check point as one record", live=True
    ),
    "pop_ck_stay_buffer_time": Setting(
        "popCkStayBufferTime",
        "ms",
        "time that a check point stays in memory",
        bounds=(1_500, HOUR_MS),
    ),
    "pop_ck_stay_buffer_time_out": Setting(
        "popCkStayBufferTimeOut",
        "ms",
        "check points are written this long before their invisible time ends",
        bounds=(1_500, HOUR_MS),
    ),
    "pop_ck_max_buffer_size": Setting(
        "popCkMaxBufferSize", "check points", "most check points in memory", bounds=(0, 10_000_000)
    ),
    "pop_ck_offset_max_queue_size": Setting(
        "popCkOffsetMaxQueueSize",
        "check points",
        "most check points in memory of one queue of a group",
        bounds=(1, 1_000_000),
    ),
    "pop_polling_size": Setting(
        "popPollingSize",
        "requests",
        "waiting pops of one topic, group and queue",
        bounds=(0, 1_000_000),
    ),
    "max_pop_polling_size": Setting(
        "maxPopPollingSize", "requests", "waiting pops of the broker", bounds=(0, 10_000_000)
    ),
    "pop_from_retry_probability": Setting(
        "popFromRetryProbability",
        "%",
        "pops that look into the retry topic first",
        live=True,
        bounds=(0, 100),
    ),
    "enable_retry_topic_v2": Setting(
        "enableRetryTopicV2", "", "store retried pop messages in %RETRY%group+topic", live=True
    ),
    "retrieve_message_from_pop_retry_topic_v1": Setting(
        "retrieveMessageFromPopRetryTopicV1",
        "",
        "with version 2 also pop from %RETRY%group_topic",
        live=True,
    ),
    "pop_response_return_actual_retry_topic": Setting(
        "popResponseReturnActualRetryTopic",
        "",
        "show popped retry messages under their retry topic",
        live=True,
    ),
    "enable_pop_message_threshold": Setting(
        "enablePopMessageThreshold", "", "stop pops of a queue with many in flight", live=True
    ),
    "pop_inflight_message_threshold": Setting(
        "popInflightMessageThreshold",
        "messages",
        "in flight in one queue of a group before its pops stop",
        live=True,
        bounds=(0, INT_MAX),
    ),
    "init_pop_offset_by_check_msg_in_mem": Setting(
        "initPopOffsetByCheckMsgInMem",
        "",
        "a new pop group starts at the first message if it is in memory",
        live=True,
    ),
    "revive_queue_num": Setting(
        "reviveQueueNum", "queues", "queues of the revive topic", bounds=(1, 256)
    ),
    "skip_when_ck_re_put_reach_max_times": Setting(
        "skipWhenCKRePutReachMaxTimes",
        "",
        "give up a message that cannot be revived after 17 attempts",
        live=True,
    ),
}
