"""RetryPolicy: whether an attempt is followed by another one, and how long each may take.

**Source:** RocketMQ ``DefaultMQProducerImpl#sendDefaultImpl``, ``MQClientAPIImpl#onExceptionImpl``.
"""

from broker.client.config import ProducerConfig
from broker.client.results import SendStatus
from broker.errors import BrokerError, ClientError, RemotingError
from broker.remoting.rpc.send_response import RETRIED_CODES


class RetryPolicy:
    """The retry rules of one producer.

    ``asynchronous`` sends retry only failures of the transport, because the broker's error response
    is passed to the application.
    """

    def __init__(self, config: ProducerConfig, *, asynchronous: bool = False) -> None:
        self._codes = RETRIED_CODES | config.retry_codes
        self._asynchronous = asynchronous
        self._another_when_not_ok = config.retry_another_broker_when_not_store_ok
        self._per_request_ms = config.max_timeout_per_request_ms
        times = config.retry_times_async if asynchronous else config.retry_times
        self.attempts = 1 + max(0, times)

    def retries_error(self, error: Exception) -> bool:
        """Whether an attempt that raised ``error`` may be followed by another one."""
        if isinstance(error, RemotingError):
            return True
        if self._asynchronous:
            return False
        if isinstance(error, BrokerError):
            return error.code in self._codes
        return isinstance(error, ClientError)

    def retries_status(self, status: SendStatus) -> bool:
        """Whether a stored message with less durability than asked is sent again elsewhere."""
        if self._asynchronous:
            return False
        return self._another_when_not_ok and status is not SendStatus.SEND_OK

    def attempt_timeout_ms(self, left_ms: float, *, others: bool) -> float:
        """Return the timeout of one attempt with ``left_ms`` left for all.

        ``others``: another broker and another attempt are left.
        """
        if self._per_request_ms is None:
            return left_ms * 2 / 3 if others else left_ms
        if self._per_request_ms > 0:
            return min(left_ms, self._per_request_ms)
        return left_ms
