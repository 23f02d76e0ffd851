"""``mqadmin check namesrv``."""

from collections.abc import Callable
from typing import Any

from tests.support.fake_brokers import FakeCluster


def test_a_name_server_without_brokers_is_a_warning_and_a_dead_one_critical(
    check: Callable[..., Any], cluster: FakeCluster
) -> None:
    assert check("namesrv").status == 0
    cluster.brokers[0].registered = False
    assert check("namesrv").status == 1
    cluster.namesrvs[0].down = True
    assert check("namesrv").status == 2
    assert check("namesrv", "--warn", "soon").status == 3
