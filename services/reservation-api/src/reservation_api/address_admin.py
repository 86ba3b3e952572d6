"""The operators' view of addresses that a provider called dead: listed, and cleared so that they are tried again.

Clearing is recorded with who and when, in the same transaction; a dry run changes nothing.
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

MOST_AT_ONCE = 1000
TABLE = "undeliverable_address"


class UndeliverableAddress(CamelModel):
    id: int
    user_type: UserType
    user_id: int
    channel: Channel
    address: str
    reason: str
    silences: bool
    """False for a mark that was withheld, because too many addresses of its channel were marked at once."""
    marked_at: datetime


class AddressSelection(Body):
    """Marks of a person, of a channel, or with a text in their reason; the more is given, the fewer they are."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"channel": "EMAIL", "reasonContains": "relay not permitted", "dryRun": True}}
    )

    user_type: UserType | None = None
    user_id: Id | None = None
    channel: Channel | None = None
    reason_contains: Text | None = None
    dry_run: StrictBool = False

    @model_validator(mode="after")
    def says_which(self) -> "AddressSelection":
        if (self.user_type is None) != (self.user_id is None):
            raise ValueError("userType and userId name a person together")
        if self.user_id is None and self.reason_contains is None:
            raise ValueError("say which: userType and userId, reasonContains or both")
        return self


class ClearedAddresses(CamelModel):
    dry_run: bool
    addresses: list[UndeliverableAddress]
    """The marks that were, or with a dry run would be, cleared."""
    more: bool
    """There are more than one call takes: call again."""


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
                limit=MOST_AT_ONCE + 1,
            )
            rows = found[:MOST_AT_ONCE]
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
                more=len(found) > MOST_AT_ONCE,
            )

        return await in_transaction(self._pool, work)


def _record(selection: AddressSelection, rows: "list[Record]") -> dict[str, Any]:
    """What was asked for, and whose marks they were: the rows themselves are gone."""
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
