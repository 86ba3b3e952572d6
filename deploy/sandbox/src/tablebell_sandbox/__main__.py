"""`python -m tablebell_sandbox`: runs the sandbox, or creates a service account for it."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.sandbox import Sandbox
from tablebell_sandbox.service_account import InvalidServiceAccount, ServiceAccount
from tablebell_sandbox.settings import InvalidSettings, Settings
from tablebell_sandbox.tcp_server import PortUnavailable

logger = logging.getLogger(__name__)


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tablebell_sandbox",
        description="Simulates the providers of all channels. Settings are SANDBOX_* variables; see README.md.",
    )
    commands = parser.add_subparsers(dest="command", metavar="command")
    commands.add_parser("serve", help="run until SIGTERM or SIGINT (the default)")
    account = commands.add_parser("service-account", help="write a service account's JSON file with a fresh RSA key")
    account.add_argument("--project", required=True, help="the Firebase project's id")
    account.add_argument("--token-uri", required=True, help="for example http://127.0.0.1:8027/token")
    account.add_argument("--out", required=True, type=Path, metavar="FILE")
    account.add_argument("--keep", action="store_true", help="keep an existing file")
    return parser.parse_args(arguments)


async def serve(settings: Settings) -> None:
    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    async with Sandbox(settings) as sandbox:
        ports = " ".join(f"{channel}={sandbox.port(channel)}" for channel in Channel)
        logger.info("sandbox_started web=http://%s:%d %s", settings.host, sandbox.web_port, ports)
        await stop.wait()
    logger.info("sandbox_stopped")


def run(main: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop  # noqa: PLC0415 - it does not exist on every platform
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    try:
        if options.command == "service-account":
            if not (options.keep and options.out.exists()):
                ServiceAccount.generate(options.project, options.token_uri).write(options.out)
            return 0
        settings = Settings.from_environment(os.environ)
        logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
        # aiosmtpd logs every command, and warns about its own deprecations.
        logging.getLogger("mail.log").setLevel(logging.ERROR)
        run(serve(settings))
    except (InvalidSettings, InvalidServiceAccount, PortUnavailable, OSError) as error:
        sys.stderr.write(f"tablebell-sandbox: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
