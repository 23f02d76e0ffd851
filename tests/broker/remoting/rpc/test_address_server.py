"""Name server discovery against an HTTP server on loopback."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from broker.errors import ConnectError
from broker.remoting.rpc.address_server import discover_namesrv, fetch_text


@pytest.fixture
def page() -> Iterator[dict[str, object]]:
    """An HTTP server whose next answer a test lays out; ``url`` is where it is."""
    answer: dict[str, object] = {"status": 200, "body": b""}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(int(str(answer["status"])))
            self.end_headers()
            self.wfile.write(bytes(answer["body"]))  # type: ignore[call-overload]

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        answer["url"] = f"http://127.0.0.1:{server.server_port}/rocketmq/nsaddr"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield answer
        server.shutdown()
        thread.join()


def test_name_servers_are_one_line_of_addresses(page: dict[str, object]) -> None:
    page["body"] = b"10.0.0.1:9876; 10.0.0.2:9876;\r\nrest"
    assert discover_namesrv(str(page["url"]), timeout_ms=5_000) == (
        "10.0.0.1:9876",
        "10.0.0.2:9876",
    )


@pytest.mark.parametrize(("status", "body"), [(404, b"a:1"), (200, b""), (200, b"<html>")])
def test_a_document_of_another_shape_is_not_a_list(
    page: dict[str, object], status: int, body: bytes
) -> None:
    page.update(status=status, body=body)
    with pytest.raises(ConnectError, match="no list of addresses"):
        discover_namesrv(str(page["url"]), timeout_ms=5_000)


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(ConnectError) as caught:
        discover_namesrv("http://127.0.0.1:1/x", timeout_ms=1_000)
    assert caught.value.address == "127.0.0.1:1"


def test_only_http_is_read() -> None:
    with pytest.raises(ValueError, match="HTTP"):
        fetch_text("file:///etc/passwd")
