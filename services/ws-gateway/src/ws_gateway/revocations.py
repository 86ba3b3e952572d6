"""Tokens that are refused although they are well signed: a file with one `jti` or one address a line.

A file, since the gateway has no database and a revocation has to outlive it; mounted, one file serves every replica.
A line that is an address (CUSTOMER:5) shuts that person out, whatever token they have.
"""

from pathlib import Path

import structlog

from tablebell.frames import address
from tablebell.outage import describe
from tablebell.tokens import Identity

log = structlog.get_logger(__name__)


class Revocations:
    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._seen: tuple[int, int] | None = None
        self._entries: frozenset[str] = frozenset()
        self.refresh()

    def refresh(self) -> bool:
        """Read the file if it has changed; says whether it had. While it cannot be read, what was read last holds."""
        if self._file is None:
            return False
        try:
            state = self._file.stat()
            seen = (state.st_mtime_ns, state.st_size)
            if seen == self._seen:
                return False
            lines = self._file.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            if self._seen != (0, 0):
                log.warning("revocations_not_read", error=describe(error))
            self._seen = (0, 0)
            return False
        self._seen = seen
        self._entries = frozenset(line.strip() for line in lines if line.strip() and not line.startswith("#"))
        log.info("revocations_read", entries=len(self._entries))
        return True

    def __contains__(self, identity: Identity) -> bool:
        return bool(self._entries) and (
            identity.token_id in self._entries or address(identity.user_type, identity.user_id) in self._entries
        )
