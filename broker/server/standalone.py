"""A broker and a name server in one process, on loopback.

Only this module combines both roles; they still communicate over the network. ``EmbeddedBroker``
offers the same to Python programs and tests::

    async with EmbeddedBroker("/tmp/store") as b:
        ... b.namesrv_address, b.address

    with BlockingEmbeddedBroker("/tmp/store") as b:     # with its own thread and event loop
        ... b.namesrv_address
"""

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Self

from broker.common.address import parse_address
from broker.namesrv.config import NamesrvConfig
from broker.namesrv.server import NameServer
from broker.namesrv.settings import LiveSettings
from broker.remoting.process import daemon
from broker.remoting.process.loop import loop_factory
from broker.remoting.security.tls_settings import TLS_SETTINGS
from broker.server.configuration.settings import Settings
from broker.server.controller import BrokerController
from broker.server.serving import Listen

START_TIMEOUT_S = 60.0
"""Timeout of the blocking form for its start; recovery of a large store takes a while."""


class Standalone:
    """A name server and a broker that registers with it."""

    def __init__(self, settings: Settings, listen: Listen, namesrv_listen: str) -> None:
        host, port = parse_address(namesrv_listen)
        store = settings.store.root
        config = NamesrvConfig(
            bind_address=host,
            listen_port=port,
            kv_config_path=f"{store}/namesrv/kvConfig.json",
            config_store_path=f"{store}/namesrv/namesrv.properties",
            admin_hosts=settings.broker.admin_hosts,
            allow_remote_admin=settings.broker.allow_remote_admin,
            **{field: getattr(settings.broker, field) for field in TLS_SETTINGS},
        )
        self.namesrv = NameServer(settings=LiveSettings(config))
        self.settings = settings
        self.controller: BrokerController | None = None
        self.namesrv_address = ""  # listening address of the name server, valid after the start
        self._listen = listen

    @property
    def address(self) -> str:
        """The address that the broker announces."""
        assert self.controller is not None, "not started"
        return self.controller.context.address

    async def start(self) -> None:
        """Start the name server, then the broker; if either fails, both are stopped."""
        await self.namesrv.start()
        try:
            self.namesrv_address = self.namesrv.addresses[0]
            self.settings.set_name_server(self.namesrv_address)
            self.controller = BrokerController(self.settings, listen=self._listen)
            await self.controller.start()
        except BaseException:
            await self.namesrv.close()
            raise

    async def close(self) -> None:
        """Stop the broker, then the name server."""
        if self.controller is not None:
            await self.controller.close()
        await self.namesrv.close()


def embedded_settings(store_dir: str, properties: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of an embedded broker: any free port unless ``properties`` set one.

    ``store_dir`` overrides ``storePathRootDir``.
    """
    values = {"listenPort": "0", **(properties or {}), "storePathRootDir": str(store_dir)}
    return Settings(values)


class EmbeddedBroker:
    """A broker with its name server on loopback, as an asynchronous context manager.

    ``properties`` are broker.conf keys. ``namesrv_address`` and ``address`` are valid inside.
    """

    def __init__(self, store_dir: str, properties: Mapping[str, str] | None = None) -> None:
        settings = embedded_settings(store_dir, properties)
        config = settings.broker
        self.standalone = Standalone(
            settings, [(daemon.LOOPBACK, config.listen_port)], f"{daemon.LOOPBACK}:0"
        )

    @property
    def namesrv_address(self) -> str:
        """The name server's address."""
        return self.standalone.namesrv_address

    @property
    def address(self) -> str:
        """The broker's address."""
        return self.standalone.address

    @property
    def controller(self) -> BrokerController:
        """The broker's controller."""
        assert self.standalone.controller is not None, "not started"
        return self.standalone.controller

    async def __aenter__(self) -> Self:
        await self.standalone.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.standalone.close()


class BlockingEmbeddedBroker:
    """The same for programs without an event loop: it runs in a separate thread."""

    def __init__(self, store_dir: str, properties: Mapping[str, str] | None = None) -> None:
        self._broker = EmbeddedBroker(store_dir, properties)
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="embedded-broker", daemon=True)

    @property
    def namesrv_address(self) -> str:
        """The name server's address."""
        return self._broker.namesrv_address

    @property
    def address(self) -> str:
        """The broker's address."""
        return self._broker.address

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S):
            raise TimeoutError(f"the embedded broker did not start within {START_TIMEOUT_S:g} s")
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None:
            loop.call_soon_threadsafe(stop.set)
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the broker's event loop and return its result."""
        assert self._loop is not None, "not started"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with self._broker:
            self._ready.set()
            await self._stop.wait()
