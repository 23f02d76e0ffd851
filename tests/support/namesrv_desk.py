"""A name server without sockets: request frames in, response frames out."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.common.clock import ManualClock
from broker.namesrv.config import NamesrvConfig
from broker.namesrv.kv import KVConfig
from broker.namesrv.processor import NamesrvProcessor
from broker.namesrv.route import RouteInfoManager
from broker.namesrv.settings import LiveSettings
from broker.remoting.endpoint import Endpoint
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.protocol.framing import FrameDecoder
from broker.remoting.protocol.rpc import Access

CHANNEL = SimpleNamespace(
    access=Access.ADMINISTRATOR, remote_address="127.0.0.1:50000", closed=False
)


class NamesrvDesk:
    """A name server's processor with an endpoint; ``config`` are fields of NamesrvConfig."""

    def __init__(self, folder: Path, clock: ManualClock, **config: Any) -> None:
        self.clock = clock
        self.settings = LiveSettings(
            NamesrvConfig(config_store_path=str(folder / "namesrv.properties"), **config)
        )
        self.routes = RouteInfoManager(clock, self.settings.config)
        self.kv = KVConfig(str(folder / "kv.json"))
        self.processor = NamesrvProcessor(self.routes, self.kv, self.settings, clock)
        self.endpoint = Endpoint(self.processor.handlers(), clock=clock)

    def frame(self, command: RemotingCommand) -> bytes:
        """The answer's frame."""
        return b"".join(self.endpoint.answer(CHANNEL, command))

    def ask(
        self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"", **fields: Any
    ) -> RemotingCommand:
        """The answer to one request; ``fields`` are set in the request's command."""
        command = request(code, ext, body)
        for name, value in fields.items():
            setattr(command, name, value)
        (answer,) = FrameDecoder().feed(self.frame(command))
        assert answer.opaque == command.opaque
        assert answer.is_response
        return answer
