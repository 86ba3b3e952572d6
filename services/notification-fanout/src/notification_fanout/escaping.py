"""Sanitizes user input and escapes it for SMS and Slack. Pure.

`plain` always comes first: it returns one line without invisible characters, and without anything that a client would
turn into a link. HTML and Slack need their own escaping as well.
"""

import re
import unicodedata
from functools import lru_cache

INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Clients turn "a.b" into a domain, "@b" into an address and "a:b" into a URL with a scheme.
LINKING = re.compile(r"[.。](?=\w)|@(?=\S)|(?<=[A-Za-z]):(?=\S)")
SLACK_MARKUP = re.compile(r"[*_~`:|]")

# The GSM 7-bit default alphabet.
SEPTETS = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿"
    "abcdefghijklmnopqrstuvwxyzäöñüà"
)
# Replacements that look similar. Brackets and the like are in the GSM extension table, where each counts twice.
LOOKALIKES = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014\u2026`[]{}\\^~|€", "''\"\"--.'()()/'-/E")


@lru_cache(maxsize=4096)  # many notifications contain the same names
def plain(text: str, length: int) -> str:
    """Return one visible line of at most `length` characters without links."""
    normal = unicodedata.normalize("NFKC", text)
    visible = "".join(" " if unicodedata.category(character) in INVISIBLE else character for character in normal)
    spaced = LINKING.sub(lambda match: match.group() + " ", visible)
    return truncate(" ".join(spaced.split()), length)


def truncate(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def slack(text: str) -> str:
    """Escape for Slack's mrkdwn: no mention, link, emphasis or emoji remains."""
    bare = " ".join(SLACK_MARKUP.sub(" ", text).split())
    return bare.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def gsm(text: str) -> str:
    """Convert to the GSM 7-bit alphabet where possible: a single other character halves the length of an SMS."""
    return "".join(_septet(character) for character in text.translate(LOOKALIKES))


def _septet(character: str) -> str:
    if character in SEPTETS:
        return character
    base = "".join(part for part in unicodedata.normalize("NFKD", character) if not unicodedata.combining(part))
    # Keep names in other scripts: question marks would be unreadable.
    return base if base and SEPTETS.issuperset(base) else character
