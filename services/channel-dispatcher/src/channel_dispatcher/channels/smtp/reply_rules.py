"""Classifies the replies of an SMTP server by the stage of the conversation. Pure.

RFC 5321 for the reply codes, RFC 3463 and the IANA registry of enhanced status codes for X.Y.Z, RFC 4954 for AUTH,
RFC 7372 for failed authentication of our mail. The stage matters: a rejection of RCPT can be about the mailbox, one of
MAIL never is, and one after DATA is about the contents.
"""

import re

from channel_dispatcher.error_rules import ErrorClass, Rules, code_class
from channel_dispatcher.outcome import SendOutcome

BEFORE_MAIL = ("CONNECT", "AUTH")
# X.Y.Z with Y = 0 or 5 (protocol) names no cause. Then, and without X.Y.Z, the text decides.
ENHANCED = re.compile(r"([45])\.(\d{1,3})\.(\d{1,3})\b")
UNSPECIFIC = ("0", "5")
NAMES_MAILBOX = re.compile(
    r"\b(user|mailbox|recipient|account|address)\b[^.;]{0,60}?\b(unknown|not found|not exist|doesn.t exist|unavailable|"
    r"disabled|inactive|invalid|not known|no longer)\b"
    r"|\b(no such|unknown|invalid|nonexistent|unrouteable) (user|mailbox|recipient|account|address|local|person)\b"
    r"|\bno mailbox\b",
    re.IGNORECASE,
)
NAMES_US = re.compile(
    r"\b(relay\w*|sender|spam|block\w*|blacklist\w*|polic\w+|reputation|denied|authenticat\w+)\b", re.IGNORECASE
)
MAILBOX_CODES = (550, 551, 553)

RULES = Rules(
    {
        "CONNECT 4xx": ErrorClass.DOWN,  # 421 Service not available, 454 TLS not available
        "CONNECT 5xx": ErrorClass.MISCONFIGURED,  # 554 No SMTP service here, 521 Host does not accept mail
        "AUTH 432": ErrorClass.MISCONFIGURED,  # 4.7.12 A password transition is needed
        "AUTH 4xx": ErrorClass.DOWN,  # 454 4.7.0 Temporary authentication failure
        "AUTH 5xx": ErrorClass.MISCONFIGURED,  # 535 5.7.8 Authentication credentials invalid
        # About us, at any stage: our sender, or the authentication of our mails.
        "5.1.7": ErrorClass.MISCONFIGURED,  # Bad sender's mailbox address syntax
        "5.1.8": ErrorClass.MISCONFIGURED,  # Bad sender's system address
        "5.7.20": ErrorClass.MISCONFIGURED,  # No passing DKIM signature found
        "5.7.21": ErrorClass.MISCONFIGURED,  # No acceptable DKIM signature found
        "5.7.22": ErrorClass.MISCONFIGURED,  # No valid author-matched DKIM signature found
        "5.7.23": ErrorClass.MISCONFIGURED,  # SPF validation failed
        "5.7.24": ErrorClass.MISCONFIGURED,  # SPF validation error
        "5.7.25": ErrorClass.MISCONFIGURED,  # Reverse DNS validation failed
        "5.7.26": ErrorClass.MISCONFIGURED,  # Multiple authentication checks failed
        "5.7.27": ErrorClass.MISCONFIGURED,  # Sender address has null MX
        "5.7.28": ErrorClass.DOWN,  # Mail flood detected
        "530": ErrorClass.MISCONFIGURED,  # 5.7.0 Authentication required
        "535": ErrorClass.MISCONFIGURED,
        # About this message, at any stage.
        "5.2.3": ErrorClass.REFUSED,  # Message length exceeds administrative limit
        "5.3.4": ErrorClass.REFUSED,  # Message too big for system
        "5.6": ErrorClass.REFUSED,  # Content or media; 5.6.7 Non-ASCII addresses not permitted
        # About the server: other messages get the same reply.
        "421": ErrorClass.DOWN,  # Service not available, closing transmission channel
        "4.3": ErrorClass.DOWN,  # Mail system status
        "5.3": ErrorClass.DOWN,
        # MAIL: the server does not know the recipient yet, so a rejection is about our sender.
        "MAIL 552": ErrorClass.REFUSED,  # Message size exceeds fixed limit
        "MAIL 555": ErrorClass.REFUSED,  # Parameters not recognized
        "MAIL 4xx": ErrorClass.DOWN,
        "MAIL 5xx": ErrorClass.MISCONFIGURED,
        # RCPT: about the mailbox if the reply names it, otherwise about our permission to send there.
        "RCPT 5.1.9": ErrorClass.REFUSED,  # Message relayed to non-compliant mailer
        "RCPT 5.1": ErrorClass.DEAD_ADDRESS,  # 5.1.1 Bad destination mailbox address, 5.1.2 Bad destination system
        "RCPT 5.2.1": ErrorClass.DEAD_ADDRESS,  # Mailbox disabled, not accepting messages
        "RCPT names the mailbox": ErrorClass.DEAD_ADDRESS,  # 550 without a specific X.Y.Z: "no such user"
        "RCPT 4.1": ErrorClass.RETRY,
        "RCPT 4.2": ErrorClass.RETRY,  # 4.2.1 Mailbox disabled, 4.2.2 Mailbox full
        "RCPT 4.4": ErrorClass.RETRY,  # routing to that recipient's host
        "RCPT 450": ErrorClass.RETRY,  # Mailbox unavailable: busy, or blocked for policy reasons (greylisting)
        "RCPT 4xx": ErrorClass.DOWN,  # 451 Local error in processing, 452 Insufficient system storage
        "RCPT 5.2": ErrorClass.RETRY,  # 5.2.2 Mailbox full
        "RCPT 5.4": ErrorClass.REFUSED,  # Routing to that recipient's host
        "RCPT 552": ErrorClass.RETRY,  # Exceeded storage allocation
        "RCPT 501": ErrorClass.REFUSED,  # Syntax error in parameters
        "RCPT 556": ErrorClass.REFUSED,  # Domain does not accept mail
        "RCPT 5xx": ErrorClass.MISCONFIGURED,  # 550 5.7.1 relay not permitted, 554 blocked
        # DATA and BDAT: about the contents. A rejection as spam is not about the mailbox.
        "DATA 4.2": ErrorClass.RETRY,
        "DATA 4xx": ErrorClass.DOWN,  # 451 Local error in processing
        "DATA 5.2": ErrorClass.RETRY,  # 5.2.2 Mailbox full
        "DATA 552": ErrorClass.RETRY,
        "DATA 5xx": ErrorClass.REFUSED,  # 550 5.7.1 Delivery not authorized, 554 Transaction failed
    }
)


def classify_reply(stage: str, code: int, text: str) -> SendOutcome:
    """`stage` is CONNECT, AUTH, MAIL, RCPT or DATA. Keys go from specific to general."""
    keys = [f"{stage} {code}", f"{stage} {code_class(code)}"]
    if stage not in BEFORE_MAIL:
        enhanced = ENHANCED.match(text)
        is_specific = enhanced is not None and enhanced[2] not in UNSPECIFIC
        if enhanced is not None and is_specific:
            kind, subject, detail = enhanced.groups()
            full, short = f"{kind}.{subject}.{detail}", f"{kind}.{subject}"
            keys = [full, f"{stage} {full}", short, f"{stage} {short}", str(code), *keys]
        else:
            named = code in MAILBOX_CODES and NAMES_MAILBOX.search(text) and not NAMES_US.search(text)
            keys = [f"{stage} names the mailbox" if named else "", str(code), *keys]
    return RULES.classify(*keys, reason=f"{stage}: {code} {text}", certain=stage in BEFORE_MAIL)
