"""Which attempts are repeated, and how long each may take."""

import pytest

from broker.client.config import ProducerConfig
from broker.client.publish.retry import RetryPolicy
from broker.client.results import SendStatus
from broker.errors import BrokerError, ClientError, ConnectError, RequestTimeoutError
from broker.remoting.protocol.codes import ResponseCode


def test_the_number_of_attempts() -> None:
    config = ProducerConfig(retry_times=2, retry_times_async=1)
    assert RetryPolicy(config).attempts == 3
    assert RetryPolicy(config, asynchronous=True).attempts == 2
    assert RetryPolicy(ProducerConfig(retry_times=-5)).attempts == 1


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205, 1500])
def test_these_response_codes_are_retried_by_synchronous_sends_only(code: int) -> None:
    error = BrokerError(code, "x")
    assert RetryPolicy(ProducerConfig()).retries_error(error)
    assert not RetryPolicy(ProducerConfig(), asynchronous=True).retries_error(error)


def test_other_response_codes_are_not_retried_unless_configured() -> None:
    error = BrokerError(ResponseCode.MESSAGE_ILLEGAL, "x")
    assert not RetryPolicy(ProducerConfig()).retries_error(error)
    config = ProducerConfig(retry_codes=frozenset({ResponseCode.MESSAGE_ILLEGAL}))
    assert RetryPolicy(config).retries_error(error)


def test_failures_of_the_transport_are_always_retried() -> None:
    for error in (ConnectError("x"), RequestTimeoutError("x")):
        assert RetryPolicy(ProducerConfig()).retries_error(error)
        assert RetryPolicy(ProducerConfig(), asynchronous=True).retries_error(error)
    assert RetryPolicy(ProducerConfig()).retries_error(ClientError("no master"))


def test_a_less_durable_result_is_retried_only_on_request() -> None:
    assert not RetryPolicy(ProducerConfig()).retries_status(SendStatus.FLUSH_DISK_TIMEOUT)
    policy = RetryPolicy(ProducerConfig(retry_another_broker_when_not_store_ok=True))
    assert policy.retries_status(SendStatus.FLUSH_DISK_TIMEOUT)
    assert not policy.retries_status(SendStatus.SEND_OK)


def test_an_attempt_leaves_time_for_another_broker_only_if_there_is_one() -> None:
    policy = RetryPolicy(ProducerConfig())
    assert policy.attempt_timeout_ms(3_000, others=True) == 2_000
    assert policy.attempt_timeout_ms(3_000, others=False) == 3_000
    fixed = RetryPolicy(ProducerConfig(max_timeout_per_request_ms=500))
    assert fixed.attempt_timeout_ms(3_000, others=True) == 500
    assert fixed.attempt_timeout_ms(300, others=True) == 300
    java = RetryPolicy(ProducerConfig(max_timeout_per_request_ms=0))
    assert java.attempt_timeout_ms(3_000, others=True) == 3_000
