"""Where a request comes from.

The source is the peer's address. Only if the peer is a trusted proxy, the source is what the proxy says in
X-Forwarded-For: any other peer could write what it likes there.
"""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network


class TrustedProxies:
    def __init__(self, networks: Iterable[Network]) -> None:
        self._networks = tuple(networks)

    def trusts(self, host: str) -> bool:
        if not self._networks:
            return False
        try:
            address = ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._networks)

    def client(self, peer: str, forwarded_for: Iterable[str]) -> str:
        """The last address of the chain that is not a trusted proxy. A proxy appends the address of its peer."""
        client = peer
        chain = [host.strip() for value in forwarded_for for host in value.split(",")]
        while chain and self.trusts(client):
            host = chain.pop()
            try:
                client = str(ip_address(host))
            except ValueError:
                break
        return client


def source_of(host: str) -> str:
    """The address by which a client is limited. One IPv6 customer has a whole /64."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address) >> 64 << 64, 64)))


class SourceCounter:
    """Counts what each source has open. A source without any uses no memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[str, int] = {}

    def add(self, source: str) -> bool:
        """Return False, and count nothing, if the source has reached the limit."""
        count = self._open.get(source, 0)
        if count >= self._limit:
            return False
        self._open[source] = count + 1
        return True

    def remove(self, source: str) -> None:
        count = self._open.get(source, 0)
        if count > 1:
            self._open[source] = count - 1
        else:
            self._open.pop(source, None)

    def __len__(self) -> int:
        return len(self._open)
