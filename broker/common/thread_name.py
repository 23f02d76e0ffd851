"""Names of threads in the operating system.

``ps -T``, ``top -H`` and debuggers show them; Python alone keeps its thread names for itself.

**Source:** RocketMQ ``ServiceThread#getServiceName``, ``ThreadFactoryImpl`` (a name per thread).
"""

import threading
from typing import Final

MAX_BYTES: Final = 15
"""Longest name that Linux keeps; longer names are truncated."""


def show_thread_name() -> None:
    """Give the calling thread its Python name in the operating system; no effect outside Linux."""
    name = threading.current_thread().name.encode()[:MAX_BYTES]
    try:
        with open(f"/proc/self/task/{threading.get_native_id()}/comm", "wb") as file:
            file.write(name)
    except OSError:
        pass  # the name is an aid for operators only
