"""Send saved samples one by one to a new broker and print those that others had to wait for.

::

    .venv/bin/python -m tests.fuzz.replay FOLDER [SECONDS]      # prints waits over SECONDS (0.2)
"""

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.fuzz.well_behaved import MessageClient
from tests.support.broker_process import BrokerProcess

SETTINGS = {"enablePropertyFilter": "true", "enableMultiDispatch": "true"}


def replay(folder: Path, limit_s: float) -> None:
    """Print each sample in ``folder`` after which the well-behaved client waited too long."""
    with (
        tempfile.TemporaryDirectory() as home,
        BrokerProcess(Path(home), SETTINGS, standalone=False) as broker,
    ):
        client = MessageClient(broker.address, broker.pid)
        client.ask()
        for path in sorted(folder.glob("*.bin")):
            before = broker.rss_bytes()
            with broker.connect() as peer:
                with suppress(OSError):  # the broker may close in the middle of it
                    peer.sendall(path.read_bytes())
                # Its own answer may be slow as well, or none: others must not wait.
                client.ask()
                client.ask()
            gap = client.longest
            grown = (broker.rss_bytes() - before) >> 20
            if gap.seconds > limit_s or grown > 20:
                print(f"{path.name}: {gap.seconds:.2f} s, +{grown} MiB", flush=True)
            client.forget()


if __name__ == "__main__":
    replay(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.2)
