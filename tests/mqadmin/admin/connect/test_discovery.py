import pytest

from mqadmin.admin.connect import discovery
from mqadmin.admin.session import ClusterAccess


def test_the_listed_addresses_replace_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(url: str, *, timeout_ms: int) -> tuple[str, ...]:
        assert (url, timeout_ms) == ("http://names/list", 700)
        return ("a:1", "b:2")

    monkeypatch.setattr(discovery, "discover_namesrv", listed)
    given = ClusterAccess(
        namesrv=("http://names/list",), timeout_ms=700, address_map={"a:1": "c:3"}
    )
    found = discovery.discovered(given)
    assert (found.namesrv, found.namesrv_url) == (("a:1", "b:2"), "")
    assert (found.timeout_ms, found.address_map) == (700, {"a:1": "c:3"})
