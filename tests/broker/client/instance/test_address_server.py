"""Reading the list of name servers over HTTP."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from broker.client.instance.address_server import fetch_text


def test_the_text_of_a_real_http_server_is_read() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"127.0.0.1:9876;127.0.0.2:9876")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        text = fetch_text(f"http://127.0.0.1:{server.server_port}/nsaddr")
        thread.join()
    assert text == "127.0.0.1:9876;127.0.0.2:9876"


def test_only_http_is_read() -> None:
    with pytest.raises(ValueError, match="HTTP"):
        fetch_text("file:///etc/passwd")
