import errno

from broker.remoting.dialling import lookup_name, refused


def test_an_ascii_host_is_looked_up_without_the_idna_codec() -> None:
    assert lookup_name("localhost") == b"localhost"
    assert lookup_name("::1") == b"::1"
    assert lookup_name("b\u00fccher.example") == "b\u00fccher.example"


def test_a_refused_connection_has_a_hint_and_other_failures_their_text() -> None:
    nothing = refused("h:1 (dialled as g:2)", errno.ECONNREFUSED, "h:1")
    assert nothing.message == "cannot connect to h:1 (dialled as g:2): Connection refused"
    assert "is the process up" in nothing.hint
    assert nothing.address == "h:1"
    unreachable = refused("h:1", errno.EHOSTUNREACH, "h:1")
    assert unreachable.message == "cannot connect to h:1: No route to host"
    assert unreachable.hint == ""
