"""Variables as shell `export` lines, for `eval "$(make -s env)"`."""

import shlex
from collections.abc import Mapping


def render(variables: Mapping[str, str]) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
