"""Revoked tokens: a file with one `jti` or one address per line.

It is a file because the gateway has no database and a revocation must survive a restart. Every replica can mount it.
An address (CUSTOMER:5) revokes all tokens of that user.
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
        self._version: tuple[int, int] | None = None
        self._entries: frozenset[str] = frozenset()
        self.refresh()

    def refresh(self) -> bool:
        """Read the file if it has changed, and return whether it had. A read error keeps the last entries."""
        if self._file is None:
            return False
        try:
            state = self._file.stat()
            version = (state.st_mtime_ns, state.st_size)
            if version == self._version:
                return False
            lines = self._file.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            if self._version != (0, 0):
                log.warning("revocations_read_failed", error=describe(error))
            self._version = (0, 0)
            return False
        self._version = version
        self._entries = frozenset(line.strip() for line in lines if line.strip() and not line.startswith("#"))
        log.info("revocations_read", entries=len(self._entries))
        return True

    def __contains__(self, identity: Identity) -> bool:
        return bool(self._entries) and (
            identity.token_id in self._entries or address(identity.user_type, identity.user_id) in self._entries
        )
