"""Settings from SANDBOX_* variables. The defaults suit one developer on one machine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FilePath, ValidationError, model_validator

PREFIX = "SANDBOX_"

Port = Annotated[int, Field(ge=0, le=65535)]


class InvalidSettings(Exception):
    """The message names every wrong variable."""


class Settings(BaseModel):
    """Port 0 means any free port."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: Port = 8085
    smtp_port: Port = 8025
    sms_port: Port = 8026
    fcm_port: Port = 8027
    slack_port: Port = 8028

    max_messages: int = Field(default=100_000, ge=1)
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"

    smtp_tls: Literal["off", "starttls", "implicit"] = "off"
    smtp_cert_file: FilePath | None = None
    smtp_key_file: FilePath | None = None
    smtp_username: str | None = None
    smtp_password: str | None = None

    sms_account: str | None = None
    sms_token: str | None = None

    fcm_credentials_file: FilePath | None = None
    fcm_token_seconds: float = Field(default=3600, gt=0)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.smtp_username is None) != (self.smtp_password is None):
            raise ValueError("SANDBOX_SMTP_USERNAME and SANDBOX_SMTP_PASSWORD belong together")
        if (self.sms_account is None) != (self.sms_token is None):
            raise ValueError("SANDBOX_SMS_ACCOUNT and SANDBOX_SMS_TOKEN belong together")
        if self.smtp_tls != "off" and not (self.smtp_cert_file and self.smtp_key_file):
            raise ValueError("SANDBOX_SMTP_TLS needs SANDBOX_SMTP_CERT_FILE and SANDBOX_SMTP_KEY_FILE")
        return self

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """An empty variable counts as unset: compose files pass empty ones."""
        given = {name: environment.get(PREFIX + name.upper()) for name in cls.model_fields}
        try:
            return cls.model_validate({name: value for name, value in given.items() if value})
        except ValidationError as error:
            problems = [
                ": ".join([*(PREFIX + str(part).upper() for part in each["loc"][:1]), each["msg"]])
                for each in error.errors()
            ]
            raise InvalidSettings("wrong settings: " + "; ".join(problems)) from error

    @property
    def smtp_login(self) -> tuple[str, str] | None:
        return (self.smtp_username, self.smtp_password) if self.smtp_username and self.smtp_password else None

    @property
    def sms_login(self) -> tuple[str, str] | None:
        return (self.sms_account, self.sms_token) if self.sms_account and self.sms_token else None

    @property
    def smtp_certificate(self) -> tuple[Path, Path] | None:
        if self.smtp_tls == "off" or not (self.smtp_cert_file and self.smtp_key_file):
            return None
        return self.smtp_cert_file, self.smtp_key_file
