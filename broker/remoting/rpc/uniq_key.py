"""UniqKeyGenerator: message ids that producers create.

**Source:** RocketMQ ``MessageClientIDSetter``. Java uses the hash of its class loader as third
part; here four random bytes per generator have its place.
"""

import os
import socket

from broker.common.address import encode_ip
from broker.common.clock import Clock
from broker.common.times import month_start_ms

_DAY_MS = 86_400_000


class UniqKeyGenerator:
    """Creates unique keys: address, process, random, time in the month, counter.

    >>> from broker.common.clock import SystemClock
    >>> keys = UniqKeyGenerator(SystemClock(), "127.0.0.1")
    >>> key = keys.create()
    >>> len(key), key[:8], key != keys.create()
    (32, '7F000001', True)
    """

    def __init__(self, clock: Clock, ip: str) -> None:
        self._clock = clock
        pid = os.getpid() & 0xFFFF
        self._prefix = (encode_ip(ip) + pid.to_bytes(2, "big") + os.urandom(4)).hex().upper()
        self._counter = 0
        self._month_ms = 0
        self._month_known_until_ms = 0

    def create(self) -> str:
        """Return a new key."""
        now_ms = self._clock.now_ms()
        if not self._month_ms <= now_ms < self._month_known_until_ms:
            self._month_ms = month_start_ms(now_ms)
            # a month has at least 28 days; asked again once a day in case the clock jumps
            self._month_known_until_ms = min(now_ms + _DAY_MS, self._month_ms + 28 * _DAY_MS)
            if self._month_known_until_ms <= now_ms:
                self._month_known_until_ms = now_ms + 1_000
        self._counter = self._counter + 1 & 0xFFFF
        since_ms = now_ms - self._month_ms & 0xFFFFFFFF
        return f"{self._prefix}{since_ms:08X}{self._counter:04X}"


def own_ip() -> str:
    """Return this host's address on the default route; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
