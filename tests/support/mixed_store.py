"""A store directory of our broker with every kind of traffic, in small files of every kind.

Written by a simulated broker: the same seed gives the same files.
"""

import random
from pathlib import Path

from tests.support.simulated_broker import PROPERTIES, ROOT, SimBroker
from tests.support.simulated_disk import SimDisk
from tests.support.traffic import Traffic

SETTINGS = {name: value for name, value in PROPERTIES.items() if name != "storePathRootDir"}
"""The broker.conf keys that fit the files."""


def write_mixed_store(root: Path, rng: random.Random, steps: int = 80) -> None:
    """Write a cleanly stopped store: plain, batch, delayed, timer, half and popped messages.

    The timerwheel is left out: that of the simulated broker is shorter than Java's.
    """
    disk = SimDisk()
    with SimBroker(disk, rng, {}) as broker:
        traffic = Traffic(rng)
        traffic.attach(broker)
        for _ in range(steps):
            kind = rng.randrange(8)
            if kind < 5:
                traffic.burst(rng.choice((1, 2, 5)))
            elif kind == 5:
                traffic.transactions.step()
            elif kind == 6:
                traffic.pops.step()
            else:
                broker.pass_ms(rng.choice((20, 1_200, 5_500)))
        broker.stop()
    _write_folder(disk, ROOT, root)
    (root / "timerwheel").unlink(missing_ok=True)


def _write_folder(disk: SimDisk, folder: str, target: Path) -> None:
    target.mkdir(parents=True)
    for name, is_folder in disk.list(folder):
        path = f"{folder}/{name}"
        if is_folder:
            _write_folder(disk, path, target / name)
        else:
            (target / name).write_bytes(disk.read(path))
