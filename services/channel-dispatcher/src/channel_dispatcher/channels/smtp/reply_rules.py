"""Classifies the replies of an SMTP server by the stage of the conversation. Pure.

Sources: RFC 5321 4.2.3 and 4.3.2 (reply codes and the command that they answer), and the IANA registry "SMTP Enhanced
Status Codes" (X.Y.Z and their reply codes: AUTH by RFC 4954, STARTTLS by RFC 3207, 521 and 556 by RFC 7504). The stage
matters: a rejection of RCPT can be about the mailbox, one of MAIL never is, and one after DATA is about the contents.

Not listed, because they answer extensions that we do not use: X.7.15 and X.7.16 (MT-PRIORITY), X.7.17 to X.7.19 (RRVS).
"""

import re

from channel_dispatcher.error_rules import ErrorClass, Rules, code_class
from channel_dispatcher.outcome import SendOutcome

BEFORE_MAIL = ("CONNECT", "AUTH")
# X.Y.Z with Y = 0 or 5 (protocol) names no cause. Then, and without X.Y.Z, the text decides.
ENHANCED = re.compile(r"([45])\.(\d{1,3})\.(\d{1,3})\b")
UNSPECIFIC = ("0", "5")
# X.1.0 Other address status: of the sender or of the recipient. The text decides.
OTHER_ADDRESS = ("1", "0")
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
SERVICE_CLOSING = 421

RULES = Rules(
    {
        "CONNECT 4xx": ErrorClass.DOWN,  # 421 Service not available, 454 TLS not available due to temporary reason
        "CONNECT 5xx": ErrorClass.MISCONFIGURED,  # 554 No SMTP service here, 521 Host does not accept mail, EHLO: 550
        "AUTH 422": ErrorClass.MISCONFIGURED,  # 4.7.12 A password transition is needed
        "AUTH 432": ErrorClass.MISCONFIGURED,  # the same
        "AUTH 4xx": ErrorClass.DOWN,  # 454 4.7.0 Temporary authentication failure
        "AUTH 5xx": ErrorClass.MISCONFIGURED,  # 535 5.7.8 Authentication credentials invalid, 534, 538
        # The server closes the connection, whatever it was doing: also 421 4.4.2 Bad connection.
        "421": ErrorClass.DOWN,  # Service not available, closing transmission channel
        # About us, at any stage: our sender, our login, or the authentication of our mails.
        "4.1.7": ErrorClass.MISCONFIGURED,  # Bad sender's mailbox address syntax
        "5.1.7": ErrorClass.MISCONFIGURED,
        "4.1.8": ErrorClass.MISCONFIGURED,  # Bad sender's system address
        "5.1.8": ErrorClass.MISCONFIGURED,
        "5.7.8": ErrorClass.MISCONFIGURED,  # Authentication credentials invalid
        "5.7.9": ErrorClass.MISCONFIGURED,  # Authentication mechanism is too weak
        "5.7.10": ErrorClass.MISCONFIGURED,  # Encryption Needed
        "5.7.11": ErrorClass.MISCONFIGURED,  # Encryption required for requested authentication mechanism
        "4.7.12": ErrorClass.MISCONFIGURED,  # A password transition is needed
        "5.7.13": ErrorClass.MISCONFIGURED,  # User Account Disabled: the one that logged in
        "5.7.14": ErrorClass.MISCONFIGURED,  # Trust relationship required
        "5.7.20": ErrorClass.MISCONFIGURED,  # No passing DKIM signature found
        "5.7.21": ErrorClass.MISCONFIGURED,  # No acceptable DKIM signature found
        "5.7.22": ErrorClass.MISCONFIGURED,  # No valid author-matched DKIM signature found
        "5.7.23": ErrorClass.MISCONFIGURED,  # SPF validation failed
        "5.7.24": ErrorClass.MISCONFIGURED,  # SPF validation error
        "5.7.25": ErrorClass.MISCONFIGURED,  # Reverse DNS validation failed
        "5.7.26": ErrorClass.MISCONFIGURED,  # Multiple authentication checks failed
        "5.7.27": ErrorClass.MISCONFIGURED,  # Sender address has null MX
        "5.7.29": ErrorClass.MISCONFIGURED,  # ARC validation failure
        "5.7.30": ErrorClass.MISCONFIGURED,  # REQUIRETLS support required
        "500": ErrorClass.MISCONFIGURED,  # Syntax error, command unrecognized
        "502": ErrorClass.MISCONFIGURED,  # Command not implemented
        "503": ErrorClass.MISCONFIGURED,  # Bad sequence of commands: another one is expected first, such as AUTH
        "523": ErrorClass.MISCONFIGURED,  # X.7.10
        "524": ErrorClass.MISCONFIGURED,  # X.7.11
        "525": ErrorClass.MISCONFIGURED,  # X.7.13
        "530": ErrorClass.MISCONFIGURED,  # 5.7.0 Authentication required; Must issue a STARTTLS command first
        "534": ErrorClass.MISCONFIGURED,  # X.7.9
        "535": ErrorClass.MISCONFIGURED,  # X.7.8
        "538": ErrorClass.MISCONFIGURED,  # X.7.11
        # About this message, at any stage.
        "455": ErrorClass.RETRY,  # Server unable to accommodate parameters
        "4.6": ErrorClass.RETRY,  # Content or media, temporarily: 4.6.5 Conversion Failed
        "5.2.3": ErrorClass.REFUSED,  # Message length exceeds administrative limit
        "5.3.3": ErrorClass.REFUSED,  # System not capable of selected features
        "5.3.4": ErrorClass.REFUSED,  # Message too big for system
        "5.6": ErrorClass.REFUSED,  # Content or media; 5.6.7 Non-ASCII addresses not permitted
        "555": ErrorClass.REFUSED,  # MAIL FROM/RCPT TO parameters not recognized or not implemented
        # About the server: other messages get the same reply.
        "4.3": ErrorClass.DOWN,  # Mail system status: 4.3.1 Mail system full, 4.3.2 not accepting network messages
        "5.3": ErrorClass.DOWN,
        "4.4.3": ErrorClass.DOWN,  # Directory server failure
        "4.4.5": ErrorClass.DOWN,  # Mail system congestion
        "4.7.28": ErrorClass.DOWN,  # Mail flood detected
        "5.7.28": ErrorClass.DOWN,
        # MAIL: the server does not know the recipient yet, so a rejection is about our sender.
        "MAIL 552": ErrorClass.REFUSED,  # Message size exceeds fixed limit
        "MAIL 4xx": ErrorClass.DOWN,  # 451 Local error in processing, 452 Insufficient system storage
        "MAIL 5xx": ErrorClass.MISCONFIGURED,  # 550, 553 the sender is not allowed
        # RCPT: about the mailbox if the reply names it, otherwise about our permission to send there.
        "RCPT 5.1.9": ErrorClass.REFUSED,  # Message relayed to non-compliant mailer
        "RCPT 5.1": ErrorClass.DEAD_ADDRESS,  # 5.1.1 Bad destination mailbox address, 5.1.2 Bad destination system
        "RCPT 5.2.1": ErrorClass.DEAD_ADDRESS,  # Mailbox disabled, not accepting messages
        "RCPT names the mailbox": ErrorClass.DEAD_ADDRESS,  # 550 without a specific X.Y.Z: "no such user"
        "RCPT 556": ErrorClass.DEAD_ADDRESS,  # Domain does not accept mail; X.1.10 Recipient address has null MX
        "RCPT 4.1": ErrorClass.RETRY,
        "RCPT 4.2": ErrorClass.RETRY,  # 4.2.1 Mailbox disabled, 4.2.2 Mailbox full
        "RCPT 4.4": ErrorClass.RETRY,  # routing to that recipient's host: 4.4.1 No answer from host
        "RCPT 450": ErrorClass.RETRY,  # Mailbox unavailable: busy, or blocked for policy reasons (greylisting)
        "RCPT 4xx": ErrorClass.DOWN,  # 451 Local error in processing, 452 Insufficient system storage
        "RCPT 5.2.2": ErrorClass.RETRY,  # Mailbox full: "should be used as a persistent transient failure"
        "RCPT 5.2": ErrorClass.REFUSED,  # 5.2.0 the mailbox exists, 5.2.4 Mailing list expansion problem
        "RCPT 5.4": ErrorClass.REFUSED,  # Routing to that recipient's host: 5.4.4 Unable to route
        "RCPT 5.7.2": ErrorClass.REFUSED,  # Mailing list expansion prohibited
        "RCPT 552": ErrorClass.RETRY,  # Exceeded storage allocation
        "RCPT 501": ErrorClass.REFUSED,  # Syntax error in parameters
        "RCPT 5xx": ErrorClass.MISCONFIGURED,  # 550 5.7.1 relay not permitted, 551 User not local, 554 blocked
        # DATA and BDAT: about the contents. A rejection as spam is not about the mailbox.
        "DATA 4.2": ErrorClass.RETRY,
        "DATA 450": ErrorClass.RETRY,  # rejected for policy reasons
        "DATA 4xx": ErrorClass.DOWN,  # 451 Local error in processing, 452 Insufficient system storage
        "DATA 5.2.2": ErrorClass.RETRY,  # Mailbox full
        "DATA 552": ErrorClass.RETRY,  # Exceeded storage allocation
        "DATA 5xx": ErrorClass.REFUSED,  # 550 rejected for policy reasons, 554 Transaction failed
    }
)


def classify_reply(stage: str, code: int, text: str) -> SendOutcome:
    """`stage` is CONNECT, AUTH, MAIL, RCPT or DATA. Keys go from specific to general."""
    keys = [f"{stage} {code}", f"{stage} {code_class(code)}"]
    if stage not in BEFORE_MAIL:
        keys = [*_enhanced_keys(stage, code, text), str(code), *keys]
        if code == SERVICE_CLOSING:
            keys = [str(code)]
    return RULES.classify(*keys, reason=f"{stage}: {code} {text}", certain=stage in BEFORE_MAIL)


def _enhanced_keys(stage: str, code: int, text: str) -> list[str]:
    """The keys of X.Y.Z; without a specific one, a key that says whether the text names the mailbox."""
    enhanced = ENHANCED.match(text)
    names_us = NAMES_US.search(text) is not None
    if enhanced is not None and enhanced[2] not in UNSPECIFIC:
        kind, subject, detail = enhanced.groups()
        if (subject, detail) == OTHER_ADDRESS and names_us:
            return []
        full, short = f"{kind}.{subject}.{detail}", f"{kind}.{subject}"
        return [full, f"{stage} {full}", short, f"{stage} {short}"]
    names_mailbox = code in MAILBOX_CODES and NAMES_MAILBOX.search(text) is not None
    return [f"{stage} names the mailbox"] if names_mailbox and not names_us else []
