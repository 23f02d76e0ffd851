"""The states of a client."""

from broker.client.state import ServiceState


def test_a_state_reads_as_part_of_a_message() -> None:
    assert f"producer g is {ServiceState.SHUTDOWN_ALREADY.value}" == "producer g is shut down"
