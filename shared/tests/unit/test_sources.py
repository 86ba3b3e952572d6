from ipaddress import ip_network

import pytest

from tablebell.sources import SourceCounter, TrustedProxies, source_of

PROXIES = TrustedProxies([ip_network("10.0.0.0/8"), ip_network("2001:db8::/64")])


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        ("203.0.113.5", [], "203.0.113.5"),
        ("203.0.113.5", ["198.51.100.7"], "203.0.113.5"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["1.1.1.1, 198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["1.1.1.1", "198.51.100.7, 10.0.0.2"], "198.51.100.7"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["198.51.100.7, not-an-address"], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("2001:db8::1", ["2001:DB8:1::7"], "2001:db8:1::7"),
        ("", ["198.51.100.7"], ""),
    ],
)
def test_the_client_is_the_last_address_that_is_not_a_trusted_proxy(
    peer: str, forwarded_for: list[str], client: str
) -> None:
    assert PROXIES.client(peer, forwarded_for) == client


def test_without_proxies_nobody_is_trusted() -> None:
    assert TrustedProxies([]).client("127.0.0.1", ["198.51.100.7"]) == "127.0.0.1"


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("203.0.113.5", "203.0.113.5"),
        ("2001:db8:0:1:aaaa::1", "2001:db8:0:1::/64"),
        ("2001:db8:0:1:bbbb::2", "2001:db8:0:1::/64"),
        ("::ffff:203.0.113.5", "203.0.113.5"),
        ("", ""),
    ],
)
def test_a_source_is_an_ipv4_address_or_an_ipv6_network(host: str, source: str) -> None:
    assert source_of(host) == source


def test_the_counter_refuses_beyond_the_limit_and_forgets_sources_without_connections() -> None:
    counter = SourceCounter(2)
    assert [counter.add("a") for _ in range(3)] == [True, True, False]
    assert counter.add("b")
    counter.remove("a")
    assert [counter.add("a"), counter.add("a")] == [True, False]
    for source in ("a", "a", "b", "b"):
        counter.remove(source)
    assert len(counter) == 0
