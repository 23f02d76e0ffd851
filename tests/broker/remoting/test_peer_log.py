"""Log lines that peers cause: bounded per host and in total, and counted."""

import logging

import pytest

from broker.remoting.limits import PEER_LOG_LIMIT, PERIOD_LOG_LIMIT
from broker.remoting.peer_log import MAX_PEERS, OTHERS, PeerLog


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "broker.remoting")
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_line_names_endpoint_peer_and_cause(lines) -> None:
    PeerLog("broker").warning("10.0.0.1:5", "not a remoting frame")
    assert lines() == ["broker: 10.0.0.1:5: not a remoting frame"]


def test_an_error_is_logged_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("x")
    PeerLog("broker").warning("10.0.0.1:5", "failed", error=error)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_the_lines_of_one_host_are_bounded_over_its_ports(lines) -> None:
    log = PeerLog("broker")
    for port in range(PEER_LOG_LIMIT + 5):
        log.warning(f"10.0.0.1:{port}", "x")
    log.warning("10.0.0.2:1", "x")
    assert len(lines()) == PEER_LOG_LIMIT + 1


def test_the_lines_of_all_hosts_together_are_bounded(lines) -> None:
    log = PeerLog("broker")
    for host in range(PERIOD_LOG_LIMIT + 20):
        log.warning(f"10.0.{host}.1:1", "x")
    assert len(lines()) == PERIOD_LOG_LIMIT


def test_hosts_beyond_the_limit_share_one_counter(lines) -> None:
    log = PeerLog("broker")
    for host in range(MAX_PEERS + 30):
        log.warning(f"10.0.{host}.1:1", "x")
    log.next_period()
    summary = lines()[-1]
    assert f"{OTHERS} 30" in summary
    assert f"{MAX_PEERS + 30 - PERIOD_LOG_LIMIT} more lines not logged" in summary


def test_suppressed_lines_are_counted_at_the_end_of_a_period_and_reset(lines) -> None:
    log = PeerLog("broker")
    for _ in range(PEER_LOG_LIMIT + 3):
        log.warning("10.0.0.1:1", "x")
    log.next_period()
    assert lines()[-1] == (
        f"broker: 3 more lines not logged; lines per peer: 10.0.0.1 {PEER_LOG_LIMIT + 3}"
    )
    before = len(lines())
    log.next_period()
    assert len(lines()) == before
    log.warning("10.0.0.1:1", "again")
    assert lines()[-1].endswith("again")


def test_a_period_without_suppressed_lines_logs_nothing(lines) -> None:
    log = PeerLog("broker")
    log.warning("10.0.0.1:1", "x")
    log.next_period()
    assert len(lines()) == 1


def test_an_ipv6_host_is_counted_without_its_port(lines) -> None:
    log = PeerLog("broker")
    for port in range(PEER_LOG_LIMIT + 5):
        log.warning(f"[2001:db8::1]:{port}", "x")
    assert len(lines()) == PEER_LOG_LIMIT
