"""What people typed, made harmless for the place it goes to. Pure.

`plain` comes first everywhere: one line, nothing invisible, nothing that a mail program, a telephone or a chat would
turn into a link by itself. What has a syntax of its own (HTML, Slack) is escaped on top of that, at that place.
"""

import re
import unicodedata
from functools import lru_cache

INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# A dot or an "at" before a word makes a domain or an address of it, and a colon behind letters a scheme.
LINKING = re.compile(r"[.。](?=\w)|@(?=\S)|(?<=[A-Za-z]):(?=\S)")
SLACK_MARKUP = re.compile(r"[*_~`:|]")

SEPTETS = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿"
    "abcdefghijklmnopqrstuvwxyzäöñüà"
)
# These look alike enough. Brackets and the like are in GSM's extension table, where each would count twice.
LOOKALIKES = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014\u2026`[]{}\\^~|€", "''\"\"--.'()()/'-/E")


@lru_cache(maxsize=4096)  # the same few names are told to many people in several languages
def plain(text: str, longest: int) -> str:
    """One visible line of at most `longest` characters, in which nothing is a link."""
    normal = unicodedata.normalize("NFKC", text)
    visible = "".join(" " if unicodedata.category(character) in INVISIBLE else character for character in normal)
    spaced = LINKING.sub(lambda match: match.group() + " ", visible)
    return cut(" ".join(spaced.split()), longest)


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def slack(text: str) -> str:
    """For Slack's mrkdwn: no mention, no link, no emphasis, no emoji."""
    bare = " ".join(SLACK_MARKUP.sub(" ", text).split())
    return bare.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def gsm(text: str) -> str:
    """In the telephone's own alphabet as far as it goes: one foreign letter would halve what fits into a message."""
    return "".join(_septet(character) for character in text.translate(LOOKALIKES))


def _septet(character: str) -> str:
    if character in SEPTETS:
        return character
    base = "".join(part for part in unicodedata.normalize("NFKD", character) if not unicodedata.combining(part))
    # A name in another script stays as it is: a row of question marks would tell nobody anything.
    return base if base and SEPTETS.issuperset(base) else character
