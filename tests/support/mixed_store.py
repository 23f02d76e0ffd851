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
    """Write a cleanly stopped store: every kind of message, pops, deleted and recreated topics.

    The timerwheel is left out: that of the simulated broker is shorter than Java's.
    """
    disk = SimDisk()
    with SimBroker(disk, rng, {}) as broker:
        traffic = Traffic(rng)
        traffic.attach(broker)
        traffic.steps(steps)
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
