"""A store with many timer messages in its wheel, made without a broker."""

import time
from pathlib import Path

from broker.common.clock import SystemClock
from broker.message.properties import encode_properties
from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner, PutMessageStatus
from broker.store.timer.timer_message_store import TimerMessageStore

TOPIC = "BenchLater"
LATER_MS = 2 * 3_600_000  # the first one is due so long after the start
PER_SECOND = 1_000  # messages due in one second
BODY = bytes(100)
DISPATCH_EACH = 1_000


def fill(root: Path, count: int, log_file_bytes: int) -> float:
    """Put ``count`` messages into the wheel of a new store; return the rate per second."""
    config = MessageStoreConfig(
        store_path_root_dir=str(root), mapped_file_size_commit_log=log_file_bytes
    )
    clock = SystemClock()
    store = MessageStore(config, clock=clock)
    store.load()
    timers = TimerMessageStore(store)
    timers.load(clean=True)
    store.start()
    began_ms = clock.now_ms()
    began = time.perf_counter()
    for number in range(count):
        properties = {
            "UNIQ_KEY": f"{number:032X}",
            "TIMER_DELIVER_MS": str(began_ms + LATER_MS + number * 1_000 // PER_SECOND),
        }
        inner = MessageExtBrokerInner(TOPIC, 0, BODY, born_timestamp=began_ms)
        refused = timers.intercept(inner, properties)
        assert refused is None, refused.remark
        inner.properties = encode_properties(properties)
        assert store.put_message(inner).status is PutMessageStatus.PUT_OK
        if number % DISPATCH_EACH == DISPATCH_EACH - 1 or number == count - 1:
            store.flush()
            store.dispatch()
            while timers.run() == 0:
                store.dispatch()
    rate = count / (time.perf_counter() - began)
    assert timers.wheel.pending == count, timers.wheel.pending
    timers.shutdown()
    store.shutdown()
    return rate
