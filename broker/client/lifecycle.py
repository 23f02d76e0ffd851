"""AsyncStartable: a client that is started and stopped, also by ``async with``."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class AsyncStartable(ABC):
    """``async with`` starts it, and stops it at the end of the block, also after an error."""

    @abstractmethod
    async def start(self) -> None:
        """Start; a client starts once."""

    @abstractmethod
    async def shutdown(self) -> None:
        """Stop; does nothing unless it is running."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.shutdown()
