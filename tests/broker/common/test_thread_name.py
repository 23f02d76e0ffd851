"""Names of threads in the operating system."""

import sys
import threading
from pathlib import Path

import pytest

from broker.common.thread_name import MAX_BYTES, show_thread_name

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="thread names are read from /proc")


@pytest.mark.parametrize("name", ["flush", "a-name-of-more-than-15-bytes", "ähnlich-wie-oben-aber"])
def test_the_operating_system_shows_the_name_of_the_calling_thread(name: str) -> None:
    shown: list[bytes] = []

    def run() -> None:
        show_thread_name()
        task = Path(f"/proc/self/task/{threading.get_native_id()}/comm")
        shown.append(task.read_bytes().rstrip(b"\n"))

    before = Path("/proc/self/comm").read_bytes()
    thread = threading.Thread(target=run, name=name)
    thread.start()
    thread.join()
    assert shown == [name.encode()[:MAX_BYTES]]
    assert Path("/proc/self/comm").read_bytes() == before
