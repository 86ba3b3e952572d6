"""Operators' access to undeliverable addresses: list the marks, and clear them so that sending is tried again.

Clearing is recorded with its admin and time in the same transaction. A dry run writes nothing.
"""

from datetime import datetime
from typing import Any

from asyncpg import Record
from pydantic import ConfigDict, StrictBool, model_validator

from reservation_api import store
from reservation_api.paging import Page, decode, encode
from reservation_api.schemas import Body, Id, Text
from reservation_api.transaction import in_transaction
from tablebell.events import CamelModel
from tablebell.people import Channel, UserType
from tablebell.postgres import Connection, Pool
from tablebell.tokens import Identity

MAX_ROWS = 1000
TABLE = "undeliverable_address"


class UndeliverableAddress(CamelModel):
    id: int
    user_type: UserType
    user_id: int
    channel: Channel
    address: str
    reason: str
    silences: bool
    """False if the mark has no effect, because too many addresses of the channel were marked at once."""
    marked_at: datetime


class AddressSelection(Body):
    """Selects marks by person, channel and a part of their reason; all given criteria must match."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"channel": "EMAIL", "reasonContains": "relay not permitted", "dryRun": True}}
    )

    user_type: UserType | None = None
    user_id: Id | None = None
    channel: Channel | None = None
    reason_contains: Text | None = None
    dry_run: StrictBool = False

    @model_validator(mode="after")
    def has_a_criterion(self) -> "AddressSelection":
        if (self.user_type is None) != (self.user_id is None):
            raise ValueError("userType and userId are required together")
        if self.user_id is None and self.reason_contains is None:
            raise ValueError("userType with userId, or reasonContains, is required")
        return self


class ClearedAddresses(CamelModel):
    dry_run: bool
    addresses: list[UndeliverableAddress]
    """The cleared marks; with a dry run, the marks that would be cleared."""
    more: bool
    """More marks match than one call handles: call again."""


class AddressAdmin:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list(
        self, channel: Channel | None, reason_contains: str | None, cursor: str | None, limit: int
    ) -> Page[UndeliverableAddress]:
        """The oldest first."""
        (after,) = decode(cursor, 1) if cursor else (0,)
        rows = await store.list_undeliverable_addresses(
            self._pool, person=(None, None), channel=channel, reason=reason_contains, after_id=after, limit=limit + 1
        )
        items = [_view(row) for row in rows[:limit]]
        return Page(items=items, next_cursor=encode(items[-1].id) if len(rows) > limit else None)

    async def clear(self, identity: Identity, selection: AddressSelection) -> ClearedAddresses:
        async def work(connection: Connection) -> ClearedAddresses:
            found = await store.list_undeliverable_addresses(
                connection,
                person=(selection.user_type, selection.user_id),
                channel=selection.channel,
                reason=selection.reason_contains,
                after_id=0,
                limit=MAX_ROWS + 1,
            )
            rows = found[:MAX_ROWS]
            if rows and not selection.dry_run:
                rows = await store.clear_undeliverable_addresses(connection, [row["id"] for row in rows])
                await store.append_intervention(
                    connection,
                    level=TABLE,
                    act="clear",
                    row_ids=[row["id"] for row in rows],
                    chosen=_record(selection, rows),
                    admin_id=identity.user_id,
                )
            return ClearedAddresses(
                dry_run=selection.dry_run,
                addresses=[_view(row) for row in rows],
                more=len(found) > MAX_ROWS,
            )

        return await in_transaction(self._pool, work)


def _record(selection: AddressSelection, rows: "list[Record]") -> dict[str, Any]:
    """The selection and the affected people: the rows themselves are deleted."""
    chosen = selection.model_dump(mode="json", by_alias=True, exclude={"dry_run"}, exclude_none=True)
    return {**chosen, "people": sorted({f"{row['user_type']}:{row['user_id']}" for row in rows})}


def _view(row: Record) -> UndeliverableAddress:
    return UndeliverableAddress(
        id=row["id"],
        user_type=row["user_type"],
        user_id=row["user_id"],
        channel=row["channel_type"],
        address=row["address"],
        reason=row["reason"],
        silences=row["silences"],
        marked_at=row["marked_at"],
    )
