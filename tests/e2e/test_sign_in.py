"""Sign-in by e-mail in the whole system: the mail arrives, its link opens a session, which ends with its person."""

import asyncio
import json
import re
from email import message_from_string, policy
from typing import Any

import httpx
import pytest
from chaos.environment import ChaosEnvironment
from chaos.store import Connection
from websockets.asyncio.client import connect

from tablebell.testing import eventually

# The first test of a session starts the whole system.
pytestmark = pytest.mark.timeout(180)

ADDRESS = "lucia.signs.in@example.com"


async def test_the_link_of_the_mail_opens_a_session_that_ends_with_its_person(
    environment: ChaosEnvironment, connection: Connection
) -> None:
    person = await connection.fetchval(
        "INSERT INTO customer (name, email, locale) VALUES ('Lucia', $1, 'en') RETURNING id", ADDRESS
    )
    first, second = environment.api_urls[:2]
    mails: list[dict[str, Any]] = []
    async with httpx.AsyncClient(timeout=15) as http:
        assert (await http.post(f"{first}/sign-in", json={"email": ADDRESS})).status_code == 202

        async def has_arrived() -> bool:
            mails[:] = (await http.get(f"{environment.sandbox_url}/api/messages", params={"to": ADDRESS})).json()
            return bool(mails)

        await eventually(has_arrived, within=30, every=0.1)
        (mail,) = mails
        message = message_from_string(mail["raw"], policy=policy.default)
        assert message["Subject"] == "Sign in to Tablebell"
        body: Any = message.get_body(("plain",))
        found = re.search(r"http://\S+/staff#sign-in=([\w-]{43})", body.get_content())
        assert found, body.get_content()

        answer = await http.post(f"{second}/sign-in/exchange", json={"code": found[1]})
        assert answer.status_code == 200, answer.text
        session = answer.json()["session"]
        bearer = {"Authorization": f"Bearer {session['accessToken']}"}
        assert (await http.get(f"{first}/me", headers=bearer)).json()["userId"] == person

        async def is_forgotten() -> bool:
            kept = "SELECT outcome = 'SENT' AND message = '{}' FROM notification_channel_send WHERE recipient = $1"
            return bool(await connection.fetchval(kept, ADDRESS))

        await eventually(is_forgotten, within=30, every=0.1)

        async with connect(f"{environment.gateway_urls[0]}/ws") as socket:
            await socket.send(json.dumps({"type": "auth", "token": session["accessToken"]}))
            assert json.loads(await asyncio.wait_for(socket.recv(), 10))["userId"] == person
            await connection.execute("UPDATE customer SET active = false WHERE id = $1", person)
            async with asyncio.timeout(5):
                await socket.wait_closed()
            assert socket.close_code == 4401
        refused = await http.post(f"{first}/sign-in/refresh", json={"refreshToken": session["refreshToken"]})
        assert refused.status_code == 401
