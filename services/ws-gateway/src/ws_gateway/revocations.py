"""Revoked tokens, from two sources: the list of reservation-api, and a file for emergencies.

The gateway has no database. The list is read by `access_watch`. The file has one `jti` or one address (CUSTOMER:5) per
line; an address revokes all tokens of that user, for as long as the line is there.
"""

from collections.abc import Sequence
from pathlib import Path

import structlog

from tablebell.access_list import Revocation
from tablebell.frames import address
from tablebell.outage import describe
from tablebell.tokens import Identity

log = structlog.get_logger(__name__)


class Revocations:
    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._version: tuple[int, int] | None = None
        self._in_file: frozenset[str] = frozenset()
        self._tokens: frozenset[tuple[str, str]] = frozenset()
        self._issued_before: dict[str, float] = {}
        self._changed = False
        # A file that cannot be read at the start ends the service: nobody knows which tokens are revoked.
        self._read_file()

    def replace(self, listed: Sequence[Revocation]) -> None:
        """Use this list of reservation-api instead of the last one."""
        self._tokens = frozenset((each.person, each.token_id) for each in listed if each.token_id is not None)
        self._issued_before = {}
        for each in listed:
            if each.token_id is None:
                latest = max(each.issued_before, self._issued_before.get(each.person, 0.0))
                self._issued_before[each.person] = latest
        self._changed = True
        log.info("revocations_received", entries=len(listed))

    def refresh(self) -> bool:
        """Read the file if it has changed. Returns whether the list or the file has changed since the last call.

        A file that cannot be read any more leaves its last entries in force.
        """
        changed, self._changed = self._changed, False
        try:
            return self._read_file() or changed
        except (OSError, UnicodeDecodeError) as error:
            if self._version != (0, 0):
                log.warning("revocations_read_failed", error=describe(error))
            self._version = (0, 0)
            return changed

    def _read_file(self) -> bool:
        if self._file is None:
            return False
        state = self._file.stat()
        version = (state.st_mtime_ns, state.st_size)
        if version == self._version:
            return False
        lines = self._file.read_text().splitlines()
        self._version = version
        self._in_file = frozenset(line.strip() for line in lines if line.strip() and not line.startswith("#"))
        log.info("revocations_read", entries=len(self._in_file))
        return True

    def __contains__(self, identity: Identity) -> bool:
        person = address(identity.user_type, identity.user_id)
        issued_before = self._issued_before.get(person)
        return (
            (person, identity.token_id) in self._tokens
            or (issued_before is not None and identity.is_revoked_by(issued_before))
            or identity.token_id in self._in_file
            or person in self._in_file
        )
