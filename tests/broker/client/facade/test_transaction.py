"""The blocking transaction producer."""

import threading
from pathlib import Path

import pytest

from broker.client import (
    AsyncProducer,
    AsyncTransactionProducer,
    LocalTransactionState,
    Message,
    MessageExt,
    SendResult,
    SendStatus,
    TransactionProducer,
)
from broker.message.message import PROPERTY_TRANSACTION_PREPARED
from broker.server.standalone import BlockingEmbeddedBroker

SMALL = {"mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "500", "maxIndexNum": "2000"}


class Listener:
    def __init__(self) -> None:
        self.threads: list[str] = []

    def execute_local_transaction(
        self, message: Message, argument: object
    ) -> LocalTransactionState:
        self.threads.append(threading.current_thread().name)
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


def test_the_local_transaction_runs_outside_of_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def store_plain(producer: AsyncTransactionProducer, message: Message) -> SendResult:
        """Store the half message as an ordinary one: only the threads matter here."""
        message.properties.pop(PROPERTY_TRANSACTION_PREPARED)
        return await AsyncProducer.send(producer, message)

    monkeypatch.setattr(AsyncTransactionProducer, "send", store_plain)
    listener = Listener()
    with (
        BlockingEmbeddedBroker(str(tmp_path), SMALL) as broker,
        TransactionProducer("tx", broker.namesrv_address, listener) as producer,
    ):
        outcome = producer.send_in_transaction(Message("T", b"half"), argument=7)
        assert outcome.local_transaction_state is LocalTransactionState.UNKNOWN
        assert outcome.send_result.send_status is SendStatus.SEND_OK
    assert len(listener.threads) == 1
    assert "rocketmq-client" not in listener.threads
