from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def test_cluster_list_has_the_columns_of_java(java: Run, embedded: Any) -> None:
    header, row = java("clusterList").out.splitlines()
    assert header.split("#")[1:3] == ["Cluster Name           ", "Broker Name            "]
    cells = row.split()
    assert cells[:5] == ["DefaultCluster", "broker-a", "0", embedded.address, "V5_3_3"]
    assert cells[-1] == "true"
    assert header.index("#Addr") == row.index(embedded.address)


def test_cluster_list_with_m_has_the_totals_of_two_days(java: Run) -> None:
    header, row = java("clusterList -m -c DefaultCluster").out.splitlines()
    assert header.split()[-4:] == [
        *("#InTotalYest", "#OutTotalYest", "#InTotalToday", "#OutTotalToday"),
    ]
    assert all(cell.isdigit() for cell in row.split()[2:])


def test_a_cluster_that_is_not_registered_is_status_1(java: Run) -> None:
    assert java("clusterList -c NoSuch").status == 1
