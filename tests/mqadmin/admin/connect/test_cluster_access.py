from mqadmin.admin.connect.cluster_access import ClusterAccess


def test_a_url_is_not_an_address() -> None:
    assert ClusterAccess(namesrv=("h:1",), timeout_ms=1).namesrv_url == ""
    for url in ("http://names/list", "https://names/list"):
        assert ClusterAccess(namesrv=(url,), timeout_ms=1).namesrv_url == url
