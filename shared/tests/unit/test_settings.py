from pathlib import Path

import pytest

from tablebell.settings import BrokerSettings, DatabaseSettings, FrozenSettings, Origins, ServiceSettings, load
from tablebell.tokens import IssuerSettings, SigningKey, TokenSettings


class Everything(ServiceSettings, DatabaseSettings, BrokerSettings, TokenSettings):
    pass


GOOD = {
    "PORT": "8080",
    "DATABASE_URL": "postgresql://someone:secret@localhost:5432/tablebell",
    "AMQP_URL": "amqp://someone:secret@localhost:5672/",
    "JWT_SECRET": "x" * 32,
    "JWT_AUDIENCE": "tablebell",
}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [*GOOD, "JWT_JWKS_URL", "JWT_PRIVATE_KEY_FILE", "JWT_PUBLIC_KEY_FILE", "JWT_ISSUER", "ALLOW_HTTP"]:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_good_settings_are_read_and_frozen(environment: pytest.MonkeyPatch) -> None:
    for name, value in GOOD.items():
        environment.setenv(name, value)
    settings = load(Everything, "a-service")
    assert settings.port == 8080
    with pytest.raises(ValueError, match="frozen"):
        settings.port = 1


def test_one_message_lists_all_missing_settings(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        load(Everything, "a-service")
    assert stopped.value.code == 78
    message = capsys.readouterr().err
    for name in ("PORT", "DATABASE_URL", "AMQP_URL", "JWT_AUDIENCE", "JWT_SECRET"):
        assert name in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "99999"),
        ("DATABASE_URL", "mysql://root:hunter2@localhost/x"),
        ("AMQP_URL", "localhost:5672/hunter2"),
        ("JWT_SECRET", "hunter2"),
        ("DRAIN_SECONDS", "-1"),
        ("LOG_LEVEL", "LOUD"),
    ],
)
def test_a_wrong_setting_is_named_and_its_value_never_shown(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    for good_name, good in GOOD.items():
        environment.setenv(good_name, good)
    environment.setenv(name, value)
    with pytest.raises(SystemExit):
        load(Everything, "a-service")
    message = capsys.readouterr().err
    assert name in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://someone:hunter2@db/tablebell",
        "postgresql://someone:hunter2@h1:5432,h2:5433/tablebell?target_session_attrs=read-write",
        "postgres://someone:hunter2@h1,h2:5433,h3/tablebell?target_session_attrs=primary&sslmode=require",
        "postgresql://someone:hunter2@[::1]:5432/tablebell?connect_timeout=3",
        "postgresql://someone@%2Frun%2Fpostgresql/tablebell",
    ],
)
def test_a_database_may_have_several_servers(environment: pytest.MonkeyPatch, url: str) -> None:
    environment.setenv("DATABASE_URL", url)
    assert load(DatabaseSettings, "a-service").database_url.get_secret_value() == url


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("postgresql:///tablebell", "should look like postgresql://user:password@host:port/"),
        ("postgresql://someone:hunter2@h1:5432,,h2/x", "every server should look like host or host:port"),
        ("postgresql://someone:hunter2@h1:5432,h2:/x", "every server should look like host or host:port"),
        ("postgresql://someone:hunter2@h1:99999/x", "every server should look like host or host:port"),
        ("postgresql://someone:hunter2@h1:1:2/x", "every server should look like host or host:port"),
        ("postgresql://someone:hunter2@h1,h2/x?target_session_attrs=standby", "should be read-write or primary"),
        ("postgresql://someone:hunter2@h1,h2/x?target_session_attrs=any", "should be read-write or primary"),
        ("postgresql://someone:hunter2@h1,h2/x?connect_timeout=soon", "should be a number of seconds"),
        ("postgresql://someone:hunter2@h1,h2/x?read-write", "should be name=value pairs"),
    ],
)
def test_a_database_url_that_cannot_work_is_refused_with_the_reason(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str, complaint: str
) -> None:
    environment.setenv("DATABASE_URL", url)
    with pytest.raises(SystemExit):
        load(DatabaseSettings, "a-service")
    message = capsys.readouterr().err
    assert "DATABASE_URL: " in message
    assert complaint in message
    assert "hunter2" not in message


def test_a_secret_and_a_key_set_together_are_refused(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (GOOD | {"JWT_JWKS_URL": "https://issuer.example/keys"}).items():
        environment.setenv(name, value)
    with pytest.raises(SystemExit):
        load(Everything, "a-service")
    assert "JWT_JWKS_URL" in capsys.readouterr().err


class Issuer(IssuerSettings):
    pass


@pytest.mark.parametrize(
    ("url", "allow_http", "is_accepted"),
    [
        ("https://issuer.example/keys", "", True),
        ("http://127.0.0.1:8080/keys", "", True),
        ("http://[::1]:8080/keys", "", True),
        ("http://localhost:8080/keys", "", True),
        ("http://issuer.example/keys", "", False),
        ("http://127.0.0.1.issuer.example/keys", "", False),
        ("http://reservation-api:8080/keys", "", False),
        ("http://reservation-api:8080/keys", "true", True),
        ("file:///keys", "true", False),
    ],
)
def test_a_key_set_is_read_by_https_unless_it_is_on_this_machine_or_http_is_allowed(
    environment: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    url: str,
    allow_http: str,
    is_accepted: bool,
) -> None:
    for name, value in {"JWT_AUDIENCE": "tablebell", "JWT_JWKS_URL": url, "ALLOW_HTTP": allow_http}.items():
        environment.setenv(name, value)
    if is_accepted:
        assert load(TokenSettings, "a-service").jwt_jwks_url == url
    else:
        with pytest.raises(SystemExit):
            load(TokenSettings, "a-service")
        assert "JWT_JWKS_URL" in capsys.readouterr().err


def test_an_issuer_has_exactly_one_source_of_trust(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "key.pem").write_bytes(SigningKey.generate().private_pem)
    environment.setenv("JWT_AUDIENCE", "tablebell")
    with pytest.raises(SystemExit):
        load(Issuer, "a-service")
    assert "set exactly one of JWT_PRIVATE_KEY_FILE" in capsys.readouterr().err
    environment.setenv("JWT_PRIVATE_KEY_FILE", str(tmp_path / "key.pem"))
    assert load(Issuer, "a-service").signing_key() is not None
    environment.setenv("JWT_SECRET", "x" * 32)
    with pytest.raises(SystemExit):
        load(Issuer, "a-service")
    assert "set exactly one of JWT_PRIVATE_KEY_FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JWT_PRIVATE_KEY_FILE", "/nowhere/key.pem"),
        ("JWT_MAX_LIFETIME_SECONDS", "604801"),
        ("JWT_CLOCK_SKEW_SECONDS", "301"),
    ],
)
def test_a_wrong_setting_of_an_issuer_is_named(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    environment.setenv("JWT_AUDIENCE", "tablebell")
    environment.setenv("JWT_SECRET", "x" * 32)
    environment.setenv(name, value)
    with pytest.raises(SystemExit):
        load(Issuer, "a-service")
    assert name in capsys.readouterr().err


def test_a_trailing_slash_of_an_origin_is_removed(environment: pytest.MonkeyPatch) -> None:
    class Pages(FrozenSettings):
        pages: Origins = ()

    environment.setenv("PAGES", "https://a.example/, http://b.example:8081 ,")
    assert load(Pages, "a-service").pages == ("https://a.example", "http://b.example:8081")


def test_an_empty_variable_counts_as_missing(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (GOOD | {"AMQP_URL": ""}).items():
        environment.setenv(name, value)
    with pytest.raises(SystemExit):
        load(Everything, "a-service")
    assert "AMQP_URL: missing" in capsys.readouterr().err
