"""Runs the whole system on this machine: `up`, `down`, `status`, `logs` and the commands for single servers."""

import argparse
import asyncio
import shutil
import sys
import time

from tablebell_local import command_line
from tablebell_local.errors import CommandError
from tablebell_local.instance import Instance
from tablebell_local.mode import choose, running_everywhere
from tablebell_local.process import ManagedProcess, bring_up
from tablebell_local.stack import Stack
from tablebell_local.system import System


class Command:
    """One run of the command line; each method is a sub-command and returns its exit code, or None for 0."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._instance = Instance.named(options.instance or "dev", options.state)

    def up(self) -> None:
        started = time.monotonic()
        if self._options.standby:
            self._instance.add_standby()
        mode = choose(self._options.mode, self._instance)
        mode.up(dict(self._options.scale), dict(self._options.set))
        urls = mode.addresses()
        print(
            f"\nEverything is up, after {time.monotonic() - started:.1f} s.\n"
            f"  API         {urls['API_URL']}/docs\n"
            f"  WebSocket   {urls['WS_URL']}/ws\n"
            f"  Sandbox     {urls['SANDBOX_URL']}\n"
            "Next: make status, make logs, make down"
        )

    def down(self) -> None:
        for mode in running_everywhere(self._options.mode, self._instance):
            mode.down()
        others = self._instances() if self._options.all else []
        spared = [instance.name for instance in others if instance.is_kept or instance.in_use]
        for instance in others:
            if instance.name not in spared:
                System(instance).down()
        left = f", except the servers kept or in use for tests ({', '.join(spared)})" if spared else ""
        print(f"Nothing is running{left}.", file=sys.stderr)

    def clean(self) -> None:
        for mode in running_everywhere(self._options.mode, self._instance):
            mode.down()
        for instance in self._instances():
            if instance.in_use:
                raise CommandError(f"a test run is using the instance “{instance.name}”: wait for its end")
            System(instance).down()
            shutil.rmtree(instance.directory)

    def servers(self) -> None:
        asyncio.run(Stack(self._instance).start(keep=True))

    def status(self) -> int:
        return 0 if choose(self._options.mode, self._instance).status() else 1

    def logs(self) -> None:
        mode = choose(self._options.mode, self._instance)
        mode.logs(self._options.name, self._options.lines, follow=self._options.follow)

    def migrate(self) -> None:
        choose(self._options.mode, self._instance).migrate()

    def server(self) -> None:
        """Starts, stops, restarts or kills one server."""

        async def run(process: ManagedProcess, action: str) -> None:
            async with self._instance.locked():
                if action != "start":
                    await (process.kill() if action == "kill" else process.stop())
                if action in {"start", "restart"}:
                    await bring_up(process)

        if not self._instance.secrets:
            raise CommandError(f"the instance “{self._instance.name}” has not been started yet")
        asyncio.run(run(getattr(Stack(self._instance), self._options.server), self._options.action))

    def rabbitmqctl(self) -> None:
        print(asyncio.run(Stack(self._instance).rabbitmq.control(*self._options.arguments)), end="")

    def _instances(self) -> list[Instance]:
        names = sorted(path.parent.name for path in self._options.state.glob("*/secrets.env"))
        return [Instance.named(name, self._options.state) for name in names]


def parser() -> argparse.ArgumentParser:
    top = command_line.new_parser("tablebell_local", __doc__)
    commands = top.add_subparsers(required=True, metavar="command", dest="command")

    up = commands.add_parser("up", help="start everything that does not run")
    up.add_argument("--standby", action="store_true", help="with a second PostgreSQL as a standby")
    command_line.add_up_options(up)

    down = commands.add_parser("down", help="stop everything")
    down.add_argument("--all", action="store_true", help="also the processes that killed test runs left behind")
    commands.add_parser("clean", help="stop everything and remove all data and logs")
    commands.add_parser("servers", help="start just PostgreSQL and RabbitMQ, and keep them running")
    commands.add_parser("status", help="show what runs; exit code 1 unless everything is healthy")

    logs = commands.add_parser("logs", help="show the logs")
    logs.add_argument("name", nargs="?", metavar="process")
    logs.add_argument("-f", "--follow", action="store_true", help="print new lines as they are written")
    logs.add_argument("-n", "--lines", type=int, default=50, help="of each log (default: 50)")

    commands.add_parser("migrate", help="bring the running database's schema up to date")

    for name in ("postgres", "rabbitmq"):
        server = commands.add_parser(name, help=f"start, stop, restart or kill -9 {name} alone")
        server.add_argument("action", choices=["start", "stop", "restart", "kill"])
        server.set_defaults(command="server", server=name)
    control = commands.add_parser("rabbitmqctl", help="run rabbitmqctl against the instance's own RabbitMQ")
    control.add_argument("arguments", nargs="+", metavar="argument")
    return top


def main() -> int:
    options = parser().parse_args()
    return command_line.run(getattr(Command(options), options.command), starts_system=options.command == "up")


if __name__ == "__main__":
    sys.exit(main())
