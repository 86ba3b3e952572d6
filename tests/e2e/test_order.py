"""Changes during quiet hours, with real processes: afterwards the guest gets one SMS with the final state."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import httpx
import pytest
from chaos.api_client import ApiClient
from chaos.environment import ChaosEnvironment
from chaos.store import Connection
from tests.e2e.harness import CUSTOMER, STAFF, ReservationHarness

from tablebell.testing import eventually

# The first test of a session starts the whole system.
pytestmark = pytest.mark.timeout(120)

SMS_OF_GUEST = """
SELECT id, aggregate_version, outcome, last_error
  FROM notification_channel_send
 WHERE reservation_id = $1 AND user_type = 'CUSTOMER' AND channel_type = 'SMS'
 ORDER BY aggregate_version
"""


@pytest.fixture
async def quiet(connection: Connection) -> AsyncIterator[None]:
    """Quiet hours for customer 5."""
    local = datetime.now(UTC).astimezone(ZoneInfo("Europe/Rome"))
    await connection.execute(
        "INSERT INTO notification_preference (user_type, user_id, quiet_from, quiet_until)"
        " VALUES ('CUSTOMER', 5, $1, $2)",
        (local - timedelta(hours=1)).time(),
        (local + timedelta(hours=1)).time(),
    )
    yield
    await connection.execute("DELETE FROM notification_preference WHERE user_type = 'CUSTOMER' AND user_id = 5")


@pytest.mark.usefixtures("quiet")
async def test_after_changes_in_quiet_hours_the_guest_gets_one_sms_with_the_final_state(
    environment: ChaosEnvironment, table: ReservationHarness, api: ApiClient, connection: Connection
) -> None:
    reservation = await table.ask()
    for person, method, path, body in (
        (STAFF[0], "POST", f"/restaurant/reservation/{reservation}/accept", None),
        (CUSTOMER, "PATCH", f"/customer/reservation/{reservation}", {"partySize": 6}),
        (STAFF[1], "POST", f"/restaurant/reservation/{reservation}/accept", None),
        (CUSTOMER, "POST", f"/customer/reservation/{reservation}/cancel", None),
    ):
        answer = await api.call(person, method, path, body)
        assert answer.status_code == 200, answer.text

    async def all_stored() -> bool:
        return len(await connection.fetch(SMS_OF_GUEST, reservation)) == 5

    await eventually(all_stored, within=20, every=0.1)
    rows = await connection.fetch(SMS_OF_GUEST, reservation)
    assert [row["outcome"] for row in rows] == ["WITHDRAWN"] * 4 + [None]
    assert rows[3]["last_error"] == "superseded by RESERVATION_CANCELLED (version 5)"

    await connection.execute(
        "UPDATE notification_channel_send SET next_attempt_at = now() WHERE reservation_id = $1 AND is_sent IS NULL",
        reservation,
    )

    async def sent() -> bool:
        *_, last = await connection.fetch(SMS_OF_GUEST, reservation)
        return bool(last["outcome"] == "SENT")

    await eventually(sent, within=20, every=0.1)
    async with httpx.AsyncClient(base_url=environment.sandbox_url, trust_env=False) as sandbox:
        keys = (await sandbox.get("/api/keys", params={"channel": "SMS"})).json()
    arrived = [row["aggregate_version"] for key in keys for row in rows if key.startswith(f"{row['id']}-")]
    assert arrived == [5]
