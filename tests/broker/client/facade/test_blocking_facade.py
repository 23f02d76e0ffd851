"""Start and stop of blocking clients on the shared loop thread."""

import threading

import pytest

from broker.client.facade.blocking_facade import BlockingFacade
from broker.client.lifecycle import AsyncStartable
from broker.errors import ClientError


class Client(AsyncStartable):
    """Remembers in which threads it ran."""

    def __init__(self, *, fails: bool = False) -> None:
        self.threads: list[str] = []
        self.fails = fails

    async def start(self) -> None:
        self.threads.append(threading.current_thread().name)
        if self.fails:
            raise ClientError("refused")

    async def shutdown(self) -> None:
        self.threads.append(threading.current_thread().name)


def running() -> bool:
    return any(thread.name == "rocketmq-client" for thread in threading.enumerate())


def test_the_loop_thread_ends_with_its_last_client() -> None:
    first, second = Client(), Client()
    with BlockingFacade(first):
        with BlockingFacade(second):
            assert running()
        assert running()
    assert not running()
    assert first.threads == second.threads == ["rocketmq-client"] * 2


def test_a_failed_start_is_raised_and_leaves_no_thread() -> None:
    client = BlockingFacade(Client(fails=True))
    with pytest.raises(ClientError, match="refused"), client:
        pass
    assert not running()
