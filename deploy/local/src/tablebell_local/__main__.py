"""Runs the whole system on this machine: `up`, `down`, `status`, `logs` and what belongs to them."""

import argparse
import asyncio
import os
import shutil
import signal
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from tablebell_local import exports, testrun, tokens
from tablebell_local.audit.command import audit
from tablebell_local.demo.screen import Screen
from tablebell_local.demo.story import Story
from tablebell_local.failure import Failure
from tablebell_local.instance import STATE, Instance
from tablebell_local.local import Local
from tablebell_local.logfiles import last_lines
from tablebell_local.mode import choose, running_everywhere
from tablebell_local.process import ManagedProcess, bring_up
from tablebell_local.progress import Progress
from tablebell_local.republish.command import republish
from tablebell_local.republish.selection import Selection, parse_duration
from tablebell_local.side_by_side import Lanes
from tablebell_local.stack import Stack

REPUBLISH_EXAMPLES = """examples:
  make republish UNHANDLED=1 SINCE=1d DRY=1      after RabbitMQ lost its data, or after a restore
  make republish EVENT=0f8fad5b-d9cb-469f-a165-70867728950e
  make republish DEAD=1 ERROR="does not exist"   when the cause is mended"""


class Command:
    """One run of the command line; each method is a sub-command and returns its exit code, or nothing for 0."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        default = options.command if options.command in {"test", "bench"} else "dev"
        self._instance = Instance.named(options.instance or default, options.state)

    def up(self) -> None:
        started = time.monotonic()
        if self._options.standby:
            self._instance.add_standby()
        mode = choose(self._options.mode, self._instance)
        mode.up(dict(self._options.scale), self._options.parts, dict(self._options.set))
        if not self._options.parts:
            self._say_where(time.monotonic() - started)

    def demo(self) -> int:
        mode = choose(self._options.mode, self._instance)
        mode.up(dict(self._options.scale), self._options.parts, dict(self._options.set))
        where = mode.addresses()
        screen = Screen()
        told = asyncio.run(Story(where, mode.jwt_secret(), screen).tell())
        screen.addresses(
            {
                "staff page": where["WS_URL"].replace("ws:", "http:", 1) + "/staff",
                "what arrived": where["SANDBOX_URL"],
                "API": where["API_URL"] + "/docs",
                "metrics": where["API_URL"] + "/metrics",
            }
        )
        print("\nIt keeps running: make status, make logs, make down.")
        return 0 if told else 1

    def down(self) -> None:
        for mode in running_everywhere(self._options.mode, self._instance):
            mode.down()
        spared = []
        for instance in self._instances() if self._options.all else []:
            if testrun.is_kept(instance) or testrun.in_use(instance):
                spared.append(instance.name)
            else:
                Local(instance).down()
        left = f", except the servers kept or in use for tests ({', '.join(spared)})" if spared else ""
        print(f"Nothing is running{left}.", file=sys.stderr)

    def clean(self) -> None:
        for mode in running_everywhere(self._options.mode, self._instance):
            mode.down()
        for instance in self._instances():
            if testrun.in_use(instance):
                raise Failure(f"a test run is using the instance “{instance.name}”: wait for its end")
            Local(instance).down()
            shutil.rmtree(instance.directory)

    def servers(self) -> None:
        Local(self._instance).servers()

    def status(self) -> int:
        return 0 if choose(self._options.mode, self._instance).status() else 1

    def logs(self) -> None:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `make logs | head` ends like any other program
        mode = choose(self._options.mode, self._instance)
        mode.logs(self._options.part, self._options.lines, follow=self._options.follow)

    def env(self) -> None:
        print(exports.render(choose(self._options.mode, self._instance).addresses()))

    def token(self) -> None:
        print(tokens.issue(self._options.person, choose(self._options.mode, self._instance).jwt_secret()))

    def migrate(self) -> None:
        choose(self._options.mode, self._instance).migrate()

    def audit(self) -> int:
        url = self._options.url or choose(self._options.mode, self._instance).database_url()
        reach, settle = timedelta(hours=self._options.hours), timedelta(seconds=self._options.settle)
        return asyncio.run(audit(url, reach, settle, timedelta(minutes=self._options.overdue)))

    def republish(self) -> int:
        options = self._options
        selection = Selection(
            options.since, options.event, options.type, options.unhandled, options.dead, options.error
        )
        if selection.is_empty:
            options.usage()
            return 2
        if selection.since is None and selection.event is None and not selection.dead:
            selection = replace(selection, since=timedelta(days=1))
            print("Events published within the last day (SINCE=… for another time).", file=sys.stderr)
        return asyncio.run(
            republish(
                selection,
                url=lambda: options.url or choose(options.mode, self._instance).database_url(),
                amqp=lambda: options.amqp or choose(options.mode, self._instance).amqp_url(),
                dry_run=options.dry_run,
            )
        )

    def test(self) -> int:
        if self._options.pytest:
            return testrun.run(self._instance, [["pytest", *self._options.pytest]])
        return asyncio.run(Lanes(self._instance, testrun.suites()).run())

    def bench(self) -> int:
        return testrun.run(self._instance, [["bench", *self._options.hops]])

    def server(self) -> None:
        async def run(part: ManagedProcess, action: str) -> None:
            async with self._instance.locked():
                with Progress() as board:
                    if action == "kill":
                        await part.kill()
                    if action in {"stop", "restart"}:
                        await part.stop()
                    if action in {"start", "restart"}:
                        await bring_up(part, board)

        stack = Stack(self._instance)
        if not stack.secrets:
            raise Failure(f"the instance “{self._instance.name}” has not been started yet")
        asyncio.run(run(getattr(stack, self._options.server), self._options.action))

    def rabbitmqctl(self) -> None:
        print(asyncio.run(Stack(self._instance).rabbitmq.control(*self._options.arguments)), end="")

    def _say_where(self, seconds: float) -> None:
        where = choose(self._options.mode, self._instance).addresses()
        print(
            f"\nEverything is up, after {seconds:.1f} s.\n"
            f"  API         {where['API_URL']}/docs\n"
            f"  WebSocket   {where['WS_URL']}/ws\n"
            f"  Sandbox     {where['SANDBOX_URL']}\n"
            "Next: make status, make logs, make down"
        )

    def _instances(self) -> list[Instance]:
        names = sorted(path.parent.name for path in self._options.state.glob("*/secrets.env"))
        return [Instance.named(name, self._options.state) for name in names]


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m tablebell_local", description=__doc__)
    top.add_argument(
        "--instance",
        help="which stack, by its name below the state (default: dev, for tests: test, for the bench: bench)",
    )
    top.add_argument("--state", type=Path, default=STATE, help="where instances keep their state (default: .local)")
    top.add_argument(
        "--mode", default=os.environ.get("MODE", ""), help="docker or local (default: MODE, or what answers)"
    )
    commands = top.add_subparsers(required=True, metavar="command", dest="command")

    for name, purpose in (("up", "start what does not run"), ("demo", "start it and show it")):
        up = commands.add_parser(name, help=purpose)
        up.add_argument("parts", nargs="*", metavar="part", help="just these parts and the servers (default: all)")
        up.add_argument("--standby", action="store_true", help="with a second PostgreSQL that follows the first")
        up.add_argument("--scale", type=_scale, action="append", default=[], metavar="PART=N", help="replicas")
        up.add_argument("--set", type=_setting, action="append", default=[], metavar="NAME=VALUE", help="a setting")

    down = commands.add_parser("down", help="end everything")
    down.add_argument("--all", action="store_true", help="also what killed test runs left behind")
    commands.add_parser("clean", help="end everything and forget all data and logs")
    commands.add_parser("servers", help="start just PostgreSQL and RabbitMQ, and keep them running")
    commands.add_parser("status", help="show what runs; exit code 1 unless everything is healthy")

    logs = commands.add_parser("logs", help="show the parts' logs")
    logs.add_argument("part", nargs="?")
    logs.add_argument("-f", "--follow", action="store_true", help="go on with what is added")
    logs.add_argument("-n", "--lines", type=int, default=50, help="of each part (default: 50)")

    commands.add_parser("env", help="print the running system's addresses as export lines")
    commands.add_parser("migrate", help="bring the running database's schema up to date")
    token = commands.add_parser("token", help="print a token for a person, for example restaurant_user:50")
    token.add_argument("person", metavar="AS")

    inspection = commands.add_parser("audit", help="check that nothing was lost between the levels; exit code 1 if so")
    inspection.add_argument("--hours", type=float, default=24.0, help="how far back to look (default: 24)")
    inspection.add_argument("--settle", type=float, default=60.0, help="seconds that the newest may take (default: 60)")
    inspection.add_argument(
        "--overdue", type=float, default=30.0, help="minutes that a row may be put off for (default: 30)"
    )
    inspection.add_argument("--url", help="another database than that of the running system")

    again = commands.add_parser(
        "republish",
        help="publish events again, or move dead messages back to their queues",
        description="Publishes again what matches all of the filters. Listeners skip what they have had.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=REPUBLISH_EXAMPLES,
    )
    again.add_argument(
        "--since", type=_duration, help="SINCE=1h: what was published within this time (90s, 30m, 6h, 1d)"
    )
    again.add_argument("--event", type=UUID, help="EVENT=uuid: one event, by its event_id, which is the message id too")
    again.add_argument("--type", help="TYPE=RESERVATION_ACCEPTED: events of one type")
    again.add_argument("--unhandled", action="store_true", help="UNHANDLED=1: what not all four listeners have handled")
    again.add_argument(
        "--dead", action="store_true", help="DEAD=1: the messages in event-stream.dead, back to their queues"
    )
    again.add_argument("--error", help="ERROR=text: with DEAD=1, messages whose reason contains the text")
    again.add_argument("--dry-run", action="store_true", help="DRY=1: say what would happen, and change nothing")
    again.add_argument("--url", help="another database than that of the running system")
    again.add_argument("--amqp", help="another RabbitMQ than that of the running system")
    again.set_defaults(usage=again.print_help)

    test = commands.add_parser("test", help="run pytest against PostgreSQL and RabbitMQ")
    test.add_argument("pytest", nargs="*", metavar="-- argument", help="arguments for pytest")
    bench = commands.add_parser("bench", help="measure every hop beside its raw ceiling")
    bench.add_argument("hops", nargs="*", metavar="hop", help="just these")

    for name in ("postgres", "rabbitmq"):
        server = commands.add_parser(name, help=f"start, stop, restart or kill -9 {name} alone")
        server.add_argument("action", choices=["start", "stop", "restart", "kill"])
        server.set_defaults(command="server", server=name)
    control = commands.add_parser("rabbitmqctl", help="run rabbitmqctl against the stack's own RabbitMQ")
    control.add_argument("arguments", nargs="+", metavar="argument")
    return top


def main() -> int:
    options = parser().parse_args()
    try:
        return getattr(Command(options), options.command)() or 0
    except Failure as failure:
        for line in last_lines(failure.log, 20, failure.begin) if failure.log else []:
            print(f"  | {line}", file=sys.stderr)
        log = f"\nThe whole log: {failure.log}" if failure.log else ""
        print(f"Error: {failure}{log}", file=sys.stderr)
        return 1
    except PermissionError as error:
        print(f"Error: {error}. Was it started by another user? Then end it as that user.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        kept = " What was started keeps running; `make down` ends it." if options.command in {"up", "demo"} else ""
        print(f"\nInterrupted.{kept}", file=sys.stderr)
        return 130


def _scale(text: str) -> tuple[str, int]:
    name, _, count = text.partition("=")
    if not count.isdigit() or not 1 <= int(count) <= 50:
        raise argparse.ArgumentTypeError(f"“{text}” is not like event-relay=3")
    return name, int(count)


def _duration(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"“{text}” is not like MAX_ATTEMPTS=3")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
