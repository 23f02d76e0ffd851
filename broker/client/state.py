"""ServiceState: the life cycle of a client; it starts once.

**Source:** RocketMQ ``ServiceState``.
"""

from enum import Enum


class ServiceState(Enum):
    """CREATE_JUST, START_FAILED while starting, RUNNING, SHUTDOWN_ALREADY."""

    CREATE_JUST = "not started"
    RUNNING = "running"
    SHUTDOWN_ALREADY = "shut down"
    START_FAILED = "not completely started"
