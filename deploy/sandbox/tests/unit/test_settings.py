from pathlib import Path

import pytest

from tablebell_sandbox.settings import InvalidSettings, Settings


def test_the_defaults_suit_one_machine() -> None:
    settings = Settings.from_environment({})
    ports = (settings.port, settings.smtp_port, settings.sms_port, settings.fcm_port, settings.slack_port)
    assert (settings.host, ports, settings.max_messages) == ("127.0.0.1", (8085, 8025, 8026, 8027, 8028), 100_000)


def test_an_empty_or_foreign_variable_is_ignored() -> None:
    environment = {"SANDBOX_SMTP_USERNAME": "", "SANDBOX_PORT": "", "SANDBOX_URL": "http://x", "PORT": "1"}
    assert Settings.from_environment(environment) == Settings()


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"SANDBOX_PORT": "70000"}, "SANDBOX_PORT"),
        ({"SANDBOX_FCM_CREDENTIALS_FILE": "/nowhere"}, "SANDBOX_FCM_CREDENTIALS_FILE"),
        ({"SANDBOX_SMTP_TLS": "starttls"}, "needs SANDBOX_SMTP_CERT_FILE"),
        ({"SANDBOX_SMTP_USERNAME": "bell"}, "belong together"),
        ({"SANDBOX_SMS_TOKEN": "x"}, "belong together"),
    ],
)
def test_the_error_names_a_wrong_setting(environment: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidSettings, match=complaint):
        Settings.from_environment(environment)


def test_a_certificate_is_used_only_when_tls_is_on(tmp_path: Path) -> None:
    file = tmp_path / "both.pem"
    file.touch()
    files = {"SANDBOX_SMTP_CERT_FILE": str(file), "SANDBOX_SMTP_KEY_FILE": str(file)}
    assert Settings.from_environment(files).smtp_certificate is None
    assert Settings.from_environment({"SANDBOX_SMTP_TLS": "implicit", **files}).smtp_certificate == (file, file)
