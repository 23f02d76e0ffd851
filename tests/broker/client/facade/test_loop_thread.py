"""The loop in a thread."""

import asyncio
import threading

import pytest

from broker.client.facade.loop_thread import LoopThread
from broker.errors import ClientError


async def thread_name() -> str:
    return threading.current_thread().name


def test_the_thread_lives_from_the_first_to_the_last_user() -> None:
    loop = LoopThread()
    with pytest.raises(ClientError, match="shut down"):
        loop.run(thread_name())
    loop.acquire()
    loop.acquire()
    assert loop.run(thread_name()) == "rocketmq-client"
    loop.release()
    assert loop.call(lambda: 7) == 7
    loop.release()
    with pytest.raises(ClientError, match="shut down"):
        loop.run(thread_name())
    loop.acquire()
    assert loop.run(thread_name()) == "rocketmq-client"
    loop.release()


def test_errors_reach_the_caller() -> None:
    async def fail() -> None:
        raise ValueError("no")

    loop = LoopThread()
    loop.acquire()
    with pytest.raises(ValueError, match="no"):
        loop.run(fail())
    loop.release()


def test_a_blocking_call_on_the_loop_is_refused_instead_of_hanging() -> None:
    loop = LoopThread()
    loop.acquire()

    async def nested() -> None:
        loop.run(asyncio.sleep(0))

    with pytest.raises(ClientError, match="event loop"):
        loop.run(nested())
    loop.release()
