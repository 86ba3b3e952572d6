"""The users of RabbitMQ: one per service that uses it, with only the permissions it needs, and one for operators.

None of them is an administrator. The operators' user may do everything within the vhost, and see the management pages.

RabbitMQ compares the patterns with the names of exchanges and queues: `configure` is for declaring and deleting,
`write` for publishing to an exchange and for binding a queue, `read` for consuming from a queue and for binding to an
exchange.

`python -m tablebell.broker_users FILE` writes the definitions that RabbitMQ loads at each start (`load_definitions`),
with the passwords from the environment.
"""

import base64
import hashlib
import json
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tablebell.topology import (
    DEAD_QUEUE,
    EVENT_EXCHANGE,
    EVENT_QUEUES,
    LIVE_EXCHANGE,
    LIVE_EXCHANGE_TYPE,
    PROBE_EXCHANGE,
)

OPERATOR = "operator"
DEFAULT_EXCHANGE = "amq.default"
SERVER_NAMED = "amq.gen-"
"""Prefix of the queues that RabbitMQ names, such as the gateways'. Clients cannot declare a queue with this prefix."""


@dataclass(frozen=True, slots=True)
class Permissions:
    configure: str
    write: str
    read: str


def _pattern(*names: str, prefix: str | None = None) -> str:
    """A pattern for exactly these names, and for names with the prefix."""
    patterns = [name.replace(".", r"\.") for name in names]
    if prefix is not None:
        patterns.append(prefix.replace(".", r"\.") + ".*")
    return f"^({'|'.join(patterns)})$"


_LISTENER_QUEUES = tuple(EVENT_QUEUES.values())

PERMISSIONS = {
    "event-relay": Permissions(
        configure=_pattern(EVENT_EXCHANGE, *_LISTENER_QUEUES),
        write=_pattern(EVENT_EXCHANGE, *_LISTENER_QUEUES, PROBE_EXCHANGE),
        read=_pattern(EVENT_EXCHANGE),
    ),
    "notification-fanout": Permissions(
        configure=_pattern(EVENT_EXCHANGE, *_LISTENER_QUEUES, DEAD_QUEUE, LIVE_EXCHANGE),
        # Dead letters go through the default exchange.
        write=_pattern(*_LISTENER_QUEUES, LIVE_EXCHANGE, DEFAULT_EXCHANGE, PROBE_EXCHANGE),
        read=_pattern(EVENT_EXCHANGE, *_LISTENER_QUEUES),
    ),
    "ws-gateway": Permissions(
        configure=_pattern(prefix=SERVER_NAMED),
        write=_pattern(prefix=SERVER_NAMED),
        read=_pattern(LIVE_EXCHANGE, prefix=SERVER_NAMED),
    ),
    OPERATOR: Permissions(configure=".*", write=".*", read=".*"),
}
"""By service; the users' names have a prefix (`user_name`)."""

TAGS = {OPERATOR: "monitoring"}


def user_name(service: str) -> str:
    return f"tablebell_{service.replace('-', '_')}"


def password_variable(service: str) -> str:
    """The environment variable with the user's password."""
    return f"{service.replace('-', '_').upper()}_AMQP_PASSWORD"


def definitions(passwords: Mapping[str, str], vhost: str = "/") -> dict[str, Any]:
    """RabbitMQ's definitions: the users, their permissions, and the exchange that the gateways use but may not declare.

    `passwords` has the value of each `password_variable`.
    """
    live_exchange = {"name": LIVE_EXCHANGE, "vhost": vhost, "type": LIVE_EXCHANGE_TYPE, "durable": True}
    return {
        "vhosts": [{"name": vhost}],
        "users": [
            user(user_name(service), passwords[password_variable(service)], TAGS.get(service, ""))
            for service in PERMISSIONS
        ],
        "permissions": [
            {
                "user": user_name(service),
                "vhost": vhost,
                "configure": allowed.configure,
                "write": allowed.write,
                "read": allowed.read,
            }
            for service, allowed in PERMISSIONS.items()
        ],
        "exchanges": [live_exchange | {"auto_delete": False, "internal": False, "arguments": {}}],
    }


def user(name: str, password: str, tags: str) -> dict[str, str]:
    salt = secrets.token_bytes(4)
    digest = hashlib.sha256(salt + password.encode()).digest()
    return {
        "name": name,
        "password_hash": base64.b64encode(salt + digest).decode(),
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": tags,
    }


def main(arguments: list[str], environment: Mapping[str, str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m tablebell.broker_users FILE\n")
        return 2
    variables = [password_variable(service) for service in PERMISSIONS]
    missing = [variable for variable in variables if not environment.get(variable)]
    if missing:
        sys.stderr.write(f"missing: {', '.join(missing)}\n")
        return 2
    Path(arguments[0]).write_text(json.dumps(definitions(environment), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
