"""The command line of the local stack."""

import argparse
import asyncio
import sys
from pathlib import Path

from tablebell_local import testrun
from tablebell_local.board import Board
from tablebell_local.failure import Failure
from tablebell_local.instance import STATE, Instance
from tablebell_local.part import Part, bring_up
from tablebell_local.stack import Stack


def main() -> int:
    arguments = _parser().parse_args()
    try:
        instance = Instance.named(arguments.instance, arguments.state)
        return int(arguments.run(instance, arguments) or 0)
    except Failure as failure:
        print(f"\nError: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. What was started keeps running; `make down` ends it.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tablebell_local", description=__doc__)
    parser.add_argument("--instance", default="dev", help="which stack: its name below the state (dev)")
    parser.add_argument("--state", type=Path, default=STATE, help="where instances keep their state (.local)")
    commands = parser.add_subparsers(required=True, metavar="command")

    servers = commands.add_parser("servers", help="start just PostgreSQL and RabbitMQ, and keep them")
    servers.set_defaults(run=_servers)

    down = commands.add_parser("down", help="end everything")
    down.set_defaults(run=_down)

    test = commands.add_parser("test", help="run pytest against servers of its own")
    test.add_argument("pytest", nargs="*", metavar="-- argument", help="arguments for pytest")
    test.set_defaults(run=lambda instance, arguments: testrun.run(instance, arguments.pytest))

    for name in ("postgres", "rabbitmq"):
        server = commands.add_parser(name, help=f"one action on {name} alone")
        server.add_argument("action", choices=["start", "stop", "restart", "kill"])
        server.set_defaults(run=_server, server=name)
    return parser


def _servers(instance: Instance, _arguments: argparse.Namespace) -> None:
    async def run() -> None:
        async with instance.locked():
            instance.path(testrun.KEEP).touch()
            with Board() as board:
                await Stack(instance).servers_up(board)

    asyncio.run(run())


def _down(instance: Instance, _arguments: argparse.Namespace) -> None:
    async def run() -> None:
        async with instance.locked():
            instance.path(testrun.KEEP).unlink(missing_ok=True)
            with Board() as board:
                await Stack(instance).down(board)

    asyncio.run(run())


def _server(instance: Instance, arguments: argparse.Namespace) -> None:
    async def run(part: Part) -> None:
        async with instance.locked():
            with Board() as board:
                if arguments.action == "kill":
                    await part.kill()
                if arguments.action in {"stop", "restart"}:
                    await part.stop()
                if arguments.action in {"start", "restart"}:
                    await bring_up(part, board)

    stack = Stack(instance)
    if not stack.secrets:
        raise Failure(f"the instance “{instance.name}” has not been started yet")
    asyncio.run(run(getattr(stack, arguments.server)))


if __name__ == "__main__":
    sys.exit(main())
