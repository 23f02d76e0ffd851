"""The test support itself: a child that starts, answers, is measured and ends."""

from pathlib import Path

from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from tests.support.broker_process import BrokerProcess, Pinger


def test_a_broker_in_a_child_process_answers_and_stops_in_order(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        answer = broker.call(request(RequestCode.GET_BROKER_RUNTIME_INFO))
        assert answer.code == 0
        assert broker.stop() == 0
        assert not broker.is_running


def test_memory_of_the_child_is_measured(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        began = broker.reset_peak()
        assert 0 < broker.rss_bytes() <= began <= broker.peak_rss_bytes()


def test_the_pinger_counts_answers_and_the_longest_gap(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, Pinger(broker.address) as ping:
        ping.reset()
        ping.wait_for_answers(3)
        assert ping.longest_gap_ms > 0
