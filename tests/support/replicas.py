"""A master's HA service and its slaves, each with a store, in one event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from broker.common.clock import SystemClock
from broker.remoting.security.access import AccessRules
from broker.server.ha.client import HAClient
from broker.server.ha.config import HaConfig
from broker.server.ha.service import HAService
from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageExtBrokerInner, MessageStore
from broker.store.results import PutMessageStatus

FILE = 64 * 1024


def open_store(root: Path, *, sync: bool = False) -> MessageStore:
    loop = asyncio.get_running_loop()
    config = MessageStoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=FILE,
        mapped_file_size_consume_queue=6000,
        max_hash_slot_num=100,
        max_index_num=1000,
        flush_disk_type="SYNC_FLUSH" if sync else "ASYNC_FLUSH",
    )
    store = MessageStore(config, defer=loop.call_soon, notify=loop.call_soon_threadsafe)
    store.load()
    store.start()
    return store


class Pair:
    """A master with its HA service; slaves are added by :meth:`follow`."""

    def __init__(self, folder: Path, config: HaConfig, *, sync: bool = False) -> None:
        self.folder = folder
        self.config = config
        self.master = open_store(folder / "master", sync=sync)
        self.service = HAService(self.master, config, SystemClock(), AccessRules())
        self.clients: list[HAClient] = []
        self.stores = [self.master]

    async def start(self) -> None:
        await self.service.start("127.0.0.1", 0)

    def follow(self, name: str = "slave", *, sync: bool = False) -> tuple[MessageStore, HAClient]:
        slave = open_store(self.folder / name, sync=sync)
        slave.flags.make_replica()
        address = f"127.0.0.1:{self.service.port}"
        client = HAClient(slave, self.config, SystemClock(), lambda: address)
        client.start()
        self.stores.append(slave)
        self.clients.append(client)
        return slave, client

    async def stop_slave(self, slave: MessageStore, client: HAClient) -> None:
        """Stop one slave and close its store, which the next :meth:`follow` opens again."""
        await client.stop()
        self.clients.remove(client)
        slave.shutdown()
        self.stores.remove(slave)

    async def close(self) -> None:
        for client in self.clients:
            await client.stop()
        await self.service.stop()
        for store in self.stores:
            store.shutdown()


def put(store: MessageStore, count: int, size: int = 700) -> None:
    for number in range(count):
        result = store.put_message(
            MessageExtBrokerInner(
                topic="T",
                queue_id=number % 4,
                body=bytes([number % 256]) * size,
                properties=b"KEYS\x01k%d\x02" % number,
                born_host=b"\x7f\0\0\1\0\0\0\1",
                store_host=b"\x7f\0\0\1\0\0\0\2",
            )
        )
        assert result.status is PutMessageStatus.PUT_OK


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def log_bytes(store: MessageStore) -> bytes:
    start, data = store.min_physical_offset, b""
    while start + len(data) < store.max_physical_offset:
        data += bytes(store.log.rest_of_file(start + len(data)))
    return data


async def in_pair(
    folder: Path,
    scenario: Callable[[Pair], Awaitable[None]],
    config: HaConfig | None = None,
    *,
    sync: bool = False,
) -> None:
    """Run ``scenario`` with a master that listens; close everything after it."""
    pair = Pair(folder, config or HaConfig(), sync=sync)
    await pair.start()
    try:
        await scenario(pair)
    finally:
        await pair.close()
