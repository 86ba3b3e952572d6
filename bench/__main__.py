"""`python -m bench [hop …]`: measure the named hops, or all of them."""

import argparse
import asyncio
import importlib
import pkgutil
import sys
import time
from collections.abc import Sequence

import uvloop

import bench
from bench import report
from bench.harness import Figure, Harness
from tablebell.testing import Servers
from tablebell.testing.database import drop, make_template

NOT_HOPS = {"__main__", "chart", "harness", "process", "report", "running"}


def main() -> int:
    hops = sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if module.name not in NOT_HOPS)
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("hops", nargs="*", metavar="hop", help=f"of {', '.join(hops)}")
    chosen = parser.parse_args().hops or hops
    if unknown := set(chosen) - set(hops):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(hops)}")

    servers = Servers.from_environment()
    template = make_template(servers.database_url)
    started = time.monotonic()
    figures: dict[str, Sequence[Figure]] = {}
    try:
        for hop in chosen:
            measure = importlib.import_module(f"bench.{hop}").measure
            figures[hop] = uvloop.run(measure(Harness(servers, template, hop, started)))
    finally:
        asyncio.run(drop(servers.database_url, template))
    report.show(figures)
    print(f"written to {report.write(figures)}")
    missed = [figure.name for measured in figures.values() for figure in measured if figure.ok is False]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
