"""Reports the progress of each process on standard error, so that a command's output can be piped."""

import sys


def say(name: str, state: str, detail: str = "") -> None:
    print(f"  {name:<22} {state:<10} {detail}".rstrip(), file=sys.stderr, flush=True)
