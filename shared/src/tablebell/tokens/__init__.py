"""Bearer tokens: how they are signed, and how they are verified without asking anyone."""

from tablebell.tokens.identity import BadToken, Identity, TokenRules
from tablebell.tokens.key_set import KeySet
from tablebell.tokens.keys import PublicKeys, SharedSecret, VerificationKeys
from tablebell.tokens.settings import IssuerSettings, TokenSettings
from tablebell.tokens.signing_key import BadKey, SigningKey
from tablebell.tokens.verifier import TokenVerifier

__all__ = [
    "BadKey",
    "BadToken",
    "Identity",
    "IssuerSettings",
    "KeySet",
    "PublicKeys",
    "SharedSecret",
    "SigningKey",
    "TokenRules",
    "TokenSettings",
    "TokenVerifier",
    "VerificationKeys",
]
