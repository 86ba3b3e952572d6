"""Works with a running system (`demo`, `audit`, …), previews messages, checks dependencies, runs tests and benches."""

import argparse
import asyncio
import os
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from tablebell_local import command_line
from tablebell_local.instance import Instance
from tablebell_local.mode import Mode, choose
from tablebell_tools import exports, testrun
from tablebell_tools.audit.command import audit
from tablebell_tools.demo.scenario import DemoScenario
from tablebell_tools.demo.screen import Screen
from tablebell_tools.dependencies.command import check_dependencies, refresh_advisories, write_sbom
from tablebell_tools.people_import.command import import_file
from tablebell_tools.preview.command import preview
from tablebell_tools.preview.samples import Sample
from tablebell_tools.republish.command import republish
from tablebell_tools.republish.selection import Selection, parse_duration
from tablebell_tools.side_by_side import Lanes
from tablebell_tools.tokens import TokenIssuer

# `import` is a keyword of Python.
METHODS = {"import": "import_"}

REPUBLISH_EXAMPLES = """examples:
  make republish UNHANDLED=1 SINCE=1d DRY=1      after RabbitMQ lost its data, or after a restore
  make republish EVENT=0f8fad5b-d9cb-469f-a165-70867728950e
  make republish DEAD=1 ERROR="does not exist"   when the cause is fixed"""

PREVIEW_TEXTS = {
    "customer": "the guest's name",
    "restaurant": "the restaurant's name",
    "note": "the note of the reservation",
    "address": "the restaurant's address",
    "phone": "its telephone number; empty for none",
    "reply_to": "the address for replies; empty for none",
}
PREVIEW_EXAMPLES = """examples:
  make preview
  make preview PHONE= REPLY_TO=                  a restaurant that cannot be reached
  make preview CUSTOMER="<b>Bobby</b>" FOLDER=/tmp/preview"""


IMPORT_EXAMPLES = """The file is CSV in UTF-8 with a header: userType and name are required; externalId, email,
phone, locale, timezone, role, restaurantId and agencyId are optional. A person is found again by externalId, or else
by email.

examples:
  make import FILE=people.csv DRY=1   lists every problem by line, and changes nothing
  make import FILE=people.csv         all lines or none"""


class Command:
    """One run of the command line; each method is a sub-command and returns its exit code, or None for 0."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        default = options.command if options.command in {"test", "bench"} else "dev"
        self._instance = Instance.named(options.instance or default, options.state)

    def demo(self) -> int:
        mode = self._mode()
        mode.up(dict(self._options.scale), dict(self._options.set))
        urls = mode.addresses()
        screen = Screen()
        succeeded = asyncio.run(DemoScenario(urls, TokenIssuer(mode.signing_key), screen).run())
        screen.addresses(
            {
                "staff page": urls["WS_URL"].replace("ws:", "http:", 1) + "/staff",
                "what arrived": urls["SANDBOX_URL"],
                "API": urls["API_URL"] + "/docs",
            }
        )
        print("\nThe system keeps running: make status, make logs, make down.")
        return 0 if succeeded else 1

    def env(self) -> None:
        print(exports.render(self._mode().addresses()))

    def token(self) -> None:
        print(TokenIssuer(self._mode().signing_key).issue(self._options.person))

    def dependencies(self) -> int:
        return check_dependencies()

    def advisories(self) -> None:
        refresh_advisories()

    def sbom(self) -> None:
        write_sbom(self._options.out)

    def audit(self) -> int:
        url = self._options.url or self._mode().database_url()
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
                url=lambda: options.url or self._mode().database_url(),
                amqp=lambda: options.amqp or self._mode().amqp_url(),
                dry_run=options.dry_run,
            )
        )

    def import_(self) -> int:
        if self._options.file is None:
            self._options.usage()
            return 2
        url = self._options.url or self._mode().database_url()
        return import_file(self._options.file, url, dry_run=self._options.dry_run)

    def preview(self) -> None:
        options = self._options
        given = {name: getattr(options, name) for name in PREVIEW_TEXTS if getattr(options, name) is not None}
        print(f"Open {preview(options.folder.resolve(), replace(Sample(), **given))} in a browser.")

    def test(self) -> int:
        if self._options.pytest:
            return testrun.run(self._instance, "pytest", *self._options.pytest)
        return Lanes(self._instance, testrun.suites()).run()

    def bench(self) -> int:
        return testrun.run(self._instance, "bench", *self._options.hops)

    def _mode(self) -> Mode:
        return choose(self._options.mode, self._instance)


def parser() -> argparse.ArgumentParser:
    top = command_line.new_parser("tablebell_tools", __doc__)
    commands = top.add_subparsers(required=True, metavar="command", dest="command")

    command_line.add_up_options(commands.add_parser("demo", help="start the system and show one reservation"))
    commands.add_parser("env", help="print the running system's addresses as export lines")
    token = commands.add_parser("token", help="print a token for a person, for example restaurant_user:50")
    token.add_argument("person", metavar="AS")
    _add_audit(commands.add_parser("audit", help="check that nothing was lost between the levels; exit code 1 if so"))
    _add_republish(
        commands.add_parser(
            "republish",
            help="publish events again, or move dead messages back to their queues",
            description="Publishes again what matches all of the filters. Listeners skip events they have handled.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=REPUBLISH_EXAMPLES,
        )
    )
    _add_import(
        commands.add_parser(
            "import",
            help="import people from a CSV file",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=IMPORT_EXAMPLES,
        )
    )
    _add_preview(
        commands.add_parser(
            "preview",
            help="write every message in every language to a folder",
            description="Writes every e-mail, SMS, push and Slack message, with an index page."
            " The texts that people type can be replaced.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=PREVIEW_EXAMPLES,
        )
    )
    commands.add_parser("dependencies", help="check uv.lock: hashes, known vulnerabilities, licences")
    commands.add_parser("advisories", help="download the list of known vulnerabilities (needs a network)")
    sbom = commands.add_parser("sbom", help="write the software bill of materials (CycloneDX)")
    sbom.add_argument("--out", type=Path, default=Path("sbom.cdx.json"), help="the file (default: sbom.cdx.json)")
    test = commands.add_parser("test", help="run pytest against PostgreSQL and RabbitMQ")
    test.add_argument("pytest", nargs="*", metavar="-- argument", help="arguments for pytest")
    bench = commands.add_parser("bench", help="measure every hop and its raw ceiling")
    bench.add_argument("hops", nargs="*", metavar="hop", help="just these")
    return top


def _add_audit(options: argparse.ArgumentParser) -> None:
    options.add_argument("--hours", type=float, default=24.0, help="how far back to look (default: 24)")
    options.add_argument("--settle", type=float, default=60.0, help="ignore the newest rows, in seconds (default: 60)")
    options.add_argument(
        "--overdue", type=float, default=30.0, help="minutes that a row may be postponed (default: 30)"
    )
    options.add_argument("--url", help="another database than that of the running system")


def _add_republish(options: argparse.ArgumentParser) -> None:
    options.add_argument(
        "--since", type=_duration, help="SINCE=1h: events published within this time (90s, 30m, 6h, 1d)"
    )
    options.add_argument("--event", type=UUID, help="EVENT=uuid: one event, by its event_id (also its message id)")
    options.add_argument("--type", help="TYPE=RESERVATION_ACCEPTED: events of one type")
    options.add_argument(
        "--unhandled", action="store_true", help="UNHANDLED=1: events that not all four listeners have handled"
    )
    options.add_argument(
        "--dead", action="store_true", help="DEAD=1: the messages in event-stream.dead, back to their queues"
    )
    options.add_argument("--error", help="ERROR=text: with DEAD=1, messages whose reason contains the text")
    options.add_argument("--dry-run", action="store_true", help="DRY=1: print what would happen, and change nothing")
    options.add_argument("--url", help="another database than that of the running system")
    options.add_argument("--amqp", help="another RabbitMQ than that of the running system")
    options.set_defaults(usage=options.print_help)


def _add_import(options: argparse.ArgumentParser) -> None:
    options.add_argument("--file", type=Path, help="FILE=people.csv: the file")
    options.add_argument("--dry-run", action="store_true", help="DRY=1: check the file, and change nothing")
    options.add_argument("--url", help="another database than that of the running system")
    options.set_defaults(usage=options.print_help)


def _add_preview(options: argparse.ArgumentParser) -> None:
    options.add_argument(
        "--folder", type=Path, default=Path(".local/preview"), help="FOLDER=… (default: .local/preview)"
    )
    for name, what in PREVIEW_TEXTS.items():
        # make exports the variables of its command line, so that no shell parses their values.
        given = os.environ.get(name.upper())
        options.add_argument(f"--{name.replace('_', '-')}", default=given, help=f"{name.upper()}=text: {what}")


def main() -> int:
    options = parser().parse_args()

    def command() -> int | None:
        result: int | None = getattr(Command(options), METHODS.get(options.command, options.command))()
        return result

    return command_line.run(command, starts_system=options.command == "demo")


def _duration(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
