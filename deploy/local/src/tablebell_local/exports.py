"""The running system's addresses as shell `export` lines, for `eval "$(make -s env)"`."""

import shlex
from collections.abc import Mapping

from tablebell_local.failure import Failure
from tablebell_local.system import System


def addresses(system: System) -> dict[str, str]:
    stopped = [part.name for part in system.present() if not part.pids()]
    if stopped:
        raise Failure(f"the system is not up: {', '.join(stopped)} not running. Start it with `make up`")
    return {
        "DATABASE_URL": system.stack.replication.url(),
        "AMQP_URL": system.amqp_url,
        "API_URL": f"http://127.0.0.1:{system.port('reservation-api')}",
        "WS_URL": f"ws://127.0.0.1:{system.port('ws-gateway')}",
        "SANDBOX_URL": f"http://127.0.0.1:{system.port('sandbox')}",
    }


def render(variables: Mapping[str, str]) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
