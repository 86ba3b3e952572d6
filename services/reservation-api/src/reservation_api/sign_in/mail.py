"""The mail with the link of a sign-in, in the recipient's language. Pure."""

import tomllib
from functools import cache
from importlib.resources import files

from tablebell.messages import EmailMessage, Letterhead, Link

LANGUAGES = ("it", "en", "es", "pt")


def link_mail(locale: str, name: str, url: str) -> EmailMessage:
    language = locale.lower().replace("_", "-").partition("-")[0]
    language = language if language in LANGUAGES else LANGUAGES[0]
    texts = _texts(language)
    return EmailMessage(
        language=language,
        subject=texts["subject"],
        preheader=texts["preheader"],
        letterhead=Letterhead(name="Tablebell"),
        greeting=texts["greeting"].replace("{name}", name),
        paragraphs=(texts["paragraph"],),
        links=(Link(label=texts["link"], url=url),),
        contact=texts["contact"],
        footer=texts["footer"],
    )


@cache
def _texts(language: str) -> dict[str, str]:
    file = files("reservation_api.sign_in").joinpath("texts", f"{language}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))
