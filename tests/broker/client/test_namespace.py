"""Namespaces around names."""

import pytest

from broker.client.namespace import without_namespace, wrap_namespace


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("orders", "ns%orders"),
        ("%RETRY%g", "%RETRY%ns%g"),
        ("%DLQ%g", "%DLQ%ns%g"),
    ],
)
def test_wrapping_and_unwrapping_are_inverse(name: str, wrapped: str) -> None:
    assert wrap_namespace("ns", name) == wrapped
    assert wrap_namespace("ns", wrapped) == wrapped
    assert without_namespace("ns", wrapped) == name
    assert without_namespace("ns", name) == name


def test_system_topics_and_clients_without_namespace_keep_their_names() -> None:
    assert wrap_namespace("ns", "RMQ_SYS_TRACE_TOPIC") == "RMQ_SYS_TRACE_TOPIC"
    assert wrap_namespace("", "orders") == "orders"
    assert without_namespace("", "ns%orders") == "ns%orders"
    assert wrap_namespace("ns", "") == ""
