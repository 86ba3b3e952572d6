"""The process: its settings, its metrics, and how it stops."""

import asyncio
import sys
from pathlib import Path

from tablebell.people import DURABLE_CHANNELS, Channel
from tablebell.postgres import open_pool
from tablebell.testing import Database, eventually
from tablebell.wakeups import open_wakeup_sender
from tablebell_sandbox.channel import Channel as SandboxChannel
from tablebell_sandbox.service_account import ServiceAccount

from .harness import Harness
from .processes import running, settings_for


async def start_and_fail(**environment: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "channel_dispatcher", env=environment, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    return process.returncode, errors.decode()


async def test_one_message_names_every_missing_or_wrong_setting() -> None:
    code, message = await start_and_fail(SMTP_URL="http://mail.example", SMS_ACCOUNT="AC1", MAIL_FROM="nobody")
    assert code == 78
    named = ("DATABASE_URL", "SMTP_URL", "MAIL_FROM", "SMS_API_URL", "SMS_TOKEN", "SMS_FROM", "FCM_API_URL")
    for name in (*named, "FCM_PROJECT", "FCM_CREDENTIALS_FILE", "SLACK_WEBHOOK_URL"):
        assert name in message
    assert "SMS_ACCOUNT" not in message


PLAIN = {
    "SMS_API_URL": "http://sms.example",
    "FCM_API_URL": "http://fcm.example",
    "SLACK_WEBHOOK_URL": "http://slack.example/services/T000/B000/secret",
}


async def test_providers_that_would_get_credentials_without_encryption_are_refused_with_one_message(
    tmp_path: Path,
) -> None:
    credentials = tmp_path / "account.json"
    ServiceAccount.generate("tablebell", "http://oauth.example/token").write(credentials)
    environment = PLAIN | {"FCM_CREDENTIALS_FILE": str(credentials)}
    code, message = await start_and_fail(**environment)
    assert code == 78
    for name in PLAIN:
        assert f"{name}: should be https://, unless ALLOW_CLEARTEXT_CREDENTIALS is true" in message
    assert "FCM_CREDENTIALS_FILE: its token_uri should be https://" in message
    assert "secret" not in message

    _, message = await start_and_fail(**environment, ALLOW_CLEARTEXT_CREDENTIALS="true")
    assert "https" not in message
    assert "DATABASE_URL: missing" in message


async def test_a_provider_on_this_machine_needs_no_encryption() -> None:
    for host in ("127.0.0.1:8026", "localhost", "[::1]:8026"):
        _, message = await start_and_fail(**dict.fromkeys(PLAIN, f"http://{host}/services"))
        assert "DATABASE_URL: missing" in message
        assert "https" not in message


async def test_a_disabled_channel_needs_no_settings() -> None:
    _, message = await start_and_fail(CHANNELS_OFF="SMS,PUSH,SLACK")
    assert "SMTP_URL" in message
    assert "SMS_API_URL" not in message


async def test_an_announced_row_is_sent_at_once_by_every_channel_and_counted(
    harness: Harness, database: Database
) -> None:
    environment = settings_for(database, harness.sandbox, harness.credentials) | {"POLL_SECONDS": "60"}
    async with (
        running(environment) as dispatcher,
        open_pool(database.url_of("notification_fanout"), "test", 1) as fanout,
        open_wakeup_sender(fanout) as wakeup_sender,
    ):
        ids = [row for channel in DURABLE_CHANNELS for row in await harness.add(channel)]
        wakeup_sender.announce("notification_channel_send")
        await harness.finished(*ids)
        await harness.pool.execute(
            "UPDATE notification_channel_send SET is_sent = false, outcome = 'WITHDRAWN' WHERE channel_type = 'SLACK'"
        )
        await harness.add(Channel.SMS)
        await harness.pool.execute("UPDATE notification_channel_send SET next_attempt_at = now() - interval '90 s'")
        text = await dispatcher.metrics()
    for channel in DURABLE_CHANNELS:
        assert f'dispatcher_outcomes_total{{channel="{channel}",outcome="sent"}} 1.0' in text
        assert f'dispatcher_provider_seconds_count{{channel="{channel}"}} 1.0' in text
        assert f'dispatcher_breaker_state{{channel="{channel}",state="closed"}} 1.0' in text
    assert 'dispatcher_withdrawn{channel="SLACK"} 1.0' in text
    lag = 'outbox_lag_seconds{channel="SMS",level="notification_channel_send"}'
    (line,) = [each for each in text.splitlines() if each.startswith(lag)]
    assert 90 <= float(line.split()[1]) < 120


async def test_the_log_shows_no_addresses_and_the_row_does(
    harness: Harness, database: Database, tmp_path: Path
) -> None:
    refusal = {"kind": "smtp", "code": 550, "at": "rcpt", "text": "5.1.1 <anna.bianchi@mail.example>: User unknown"}
    await harness.sandbox.set_faults(SandboxChannel.EMAIL, refusal)
    (mail,) = await harness.add(Channel.EMAIL, recipient="anna.bianchi@mail.example")
    (sms,) = await harness.add(Channel.SMS, recipient="5551234567")
    environment = settings_for(database, harness.sandbox, harness.credentials) | {"LOG_LEVEL": "DEBUG"}
    log = tmp_path / "dispatcher.log"
    with log.open("wb") as output:
        async with running(environment, output):
            rows = await harness.finished(mail, sms)
    assert ["anna.bianchi@mail.example" in row["last_error"] for row in rows] == [True, False]
    assert "5551234567" in rows[1]["last_error"]
    text = log.read_text()
    assert text.count("delivery_settled") == 2
    assert "<***@mail.example>: User unknown" in text
    assert "anna.bianchi" not in text
    assert "5551234567" not in text


async def test_the_rows_of_a_disabled_channel_are_skipped_with_the_reason(harness: Harness, database: Database) -> None:
    (row_id,) = await harness.add(Channel.SLACK)
    environment = settings_for(database, harness.sandbox, harness.credentials) | {"CHANNELS_OFF": "SLACK"}
    async with running(environment):
        (row,) = await harness.finished(row_id)
    assert (row["is_sent"], row["outcome"], row["attempt_count"]) == (False, "SKIPPED", 0)
    assert row["last_error"] == "channel SLACK is not configured"


async def test_a_stop_waits_for_started_sends(harness: Harness, database: Database) -> None:
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "delay", "seconds": 0.5})
    (row_id,) = await harness.add(Channel.SMS)
    async with running(settings_for(database, harness.sandbox, harness.credentials)) as dispatcher:
        await eventually(lambda: harness.sandbox.count(SandboxChannel.SMS).accepted == 1)
        assert await dispatcher.terminate() == 0
    assert (await harness.row(row_id))["outcome"] == "SENT"
