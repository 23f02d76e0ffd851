"""``mqbroker --check``: can this store be opened? Looks, changes nothing, starts nothing."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from broker.errors import RocketMQError, StoreError
from broker.store.format import config as files

DECODERS: dict[str, Callable[[str], object]] = {
    files.TOPICS: files.decode_topics,
    files.SUBSCRIPTION_GROUP: files.decode_subscription_group,
    files.CONSUMER_OFFSET: files.decode_consumer_offset,
    files.DELAY_OFFSET: files.decode_delay_offset,
}


def check_configuration_files(root: str) -> Iterator[str]:
    """One line per file of ``config/``; StoreError when one cannot be read, nor its backup."""
    folder = Path(root) / "config"
    if not Path(root).exists():
        parent = Path(root).absolute().parent
        while not parent.exists():
            parent = parent.parent
        if not os.access(parent, os.W_OK):
            raise StoreError(f"{root}: cannot be made", f"{parent} is not writable", path=root)
        yield f"{root}: will be made"
        return
    if not os.access(root, os.W_OK):
        raise StoreError(f"{root}: not writable", "give this user the directory", path=root)
    for name, decode in DECODERS.items():
        path = folder / name
        if not path.exists() and not path.with_name(f"{name}.bak").exists():
            continue
        yield _check_file(path, decode)


def _check_file(path: Path, decode: Callable[[str], object]) -> str:
    reasons = []
    for candidate in (path, path.with_name(f"{path.name}.bak")):
        if not candidate.exists():
            reasons.append(f"{candidate.name} is missing")
            continue
        text = candidate.read_text(encoding="utf-8", errors="replace").strip("\0")
        if not text.strip():
            reasons.append(f"{candidate.name} is empty")
            continue
        try:
            decode(text)
        except RocketMQError as error:
            reasons.append(f"{candidate.name}: {error.message}")
        else:
            return f"{candidate}: readable"
    if all("empty" in reason or "missing" in reason for reason in reasons):
        return f"{path}: empty"
    raise StoreError(f"{path}: {'; '.join(reasons)}", "repair the file", path=str(path))
