"""Start and stop of blocking clients on the shared loop thread."""

import asyncio
import threading

import pytest

from broker.client import LitePullConsumer, Message, Producer, PushConsumer, SimpleConsumer
from broker.client.facade.blocking_facade import BlockingFacade
from broker.client.lifecycle import AsyncStartable
from broker.client.publish.async_producer import AsyncProducer
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


def test_a_shutdown_without_a_running_client_does_nothing() -> None:
    running_client, stopped = Client(), Client()
    failed = BlockingFacade(Client(fails=True))
    with BlockingFacade(running_client):
        BlockingFacade(Client()).shutdown()
        with pytest.raises(ClientError, match="refused"):
            failed.start()
        failed.shutdown()
        with BlockingFacade(stopped) as facade:
            facade.shutdown()
            facade.shutdown()
        assert running()
    assert not running()
    assert stopped.threads == ["rocketmq-client"] * 2
    with BlockingFacade(Client()):
        assert running()


def test_a_second_start_leaves_the_client_running() -> None:
    client = BlockingFacade(AsyncProducer("pg", "127.0.0.1:1"))
    with client:
        with pytest.raises(ClientError, match="starts once"):
            client.start()
        assert running()
    assert not running()


def test_a_shutdown_on_the_event_loop_is_refused_and_can_be_repeated() -> None:
    class OnLoop(Client):
        async def start(self) -> None:
            with pytest.raises(ClientError, match="event loop"):
                facade.shutdown()

    facade = BlockingFacade(OnLoop())
    facade.start()
    assert running()
    facade.shutdown()
    assert not running()


def test_a_shutdown_during_the_start_does_not_stop_the_loop_under_it() -> None:
    entered, resume_start = threading.Event(), threading.Event()

    class Slow(Client):
        async def start(self) -> None:
            entered.set()
            await asyncio.to_thread(resume_start.wait)

    facade = BlockingFacade(Slow())
    starter = threading.Thread(target=facade.start)
    starter.start()
    entered.wait()
    facade.shutdown()
    resume_start.set()
    starter.join()
    assert not running()


def test_calls_before_the_start_name_the_missing_call() -> None:
    consumer = LitePullConsumer("g", "127.0.0.1:1")
    producer = Producer("g", "127.0.0.1:1")
    for call in (
        consumer.poll,
        consumer.assignment,
        PushConsumer("g", "127.0.0.1:1").resume,
        SimpleConsumer("g", "127.0.0.1:1").receive,
        lambda: producer.send(Message("T", b"x")),
        lambda: producer.send_async(Message("T", b"x")),
    ):
        with pytest.raises(ClientError, match="not started") as caught:
            call()
        assert "start()" in caught.value.hint
