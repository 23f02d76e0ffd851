"""``mqadmin check certificate``: targets and limits reach the measurement."""

from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.checks.report import row_of
from mqadmin.command.check import certificate
from tests.support.fake_brokers import FakeCluster

Check = Callable[..., Any]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    def measure(addresses: list[str], warn: float, crit: float, **fields: Any) -> Any:
        seen.update(addresses=addresses, limits=(warn, crit), **fields)
        return [row_of(address, [], text="fine") for address in addresses]

    monkeypatch.setattr(certificate, "check_certificates", measure)
    return seen


def test_name_servers_and_brokers_are_checked_by_default(
    check: Check, cluster: FakeCluster, asked: dict[str, Any]
) -> None:
    assert check("certificate", "--warn", "2d", "--tls-ca", "ca.pem").status == 0
    assert asked["addresses"] == ["127.0.0.1:9876", "10.0.0.1:10911"]
    assert (asked["limits"], asked["ca"]) == ((2.0, 7.0), "ca.pem")


def test_named_servers_need_no_cluster(
    check: Check, cluster: FakeCluster, asked: dict[str, Any]
) -> None:
    cluster.namesrvs[0].down = True
    assert check("certificate", "h:1").status == 0
    assert asked["addresses"] == ["h:1"]


def test_brokers_that_cannot_be_listed_are_unknown_and_name_servers_are_checked(
    check: Check, cluster: FakeCluster, asked: dict[str, Any]
) -> None:
    cluster.namesrvs[0].down = True
    assert check("certificate").status == 3
    assert asked["addresses"] == ["127.0.0.1:9876"]


def test_a_file_without_a_certificate_is_unknown(check: Check, tmp_path: Any) -> None:
    (tmp_path / "empty.pem").write_text("")
    assert check("certificate", "--file", str(tmp_path / "empty.pem")).status == 3
