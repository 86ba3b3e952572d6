"""The values that fill the placeholders of the templates. Pure."""

from collections.abc import Callable, Mapping
from typing import Self, TypeAlias

from notification_fanout.escaping import plain
from notification_fanout.language import Language
from tablebell.events import ReservationData

NAME_LENGTH = 60
REASON_LENGTH = 200

Escape: TypeAlias = Callable[[str], str]


class Fields(dict[str, str]):
    """The values of template fields, computed on first use: most templates use few of them."""

    def __init__(self, language: Language, data: ReservationData, escape_name: Escape = str) -> None:
        super().__init__()
        self._language = language
        self._data = data
        self._escape_name = escape_name

    def escaped(self, escape_name: Escape) -> Self:
        """The same fields with the names, which are user input, escaped."""
        return type(self)(self._language, self._data, escape_name)

    def __missing__(self, field: str) -> str:
        if field in NAMES:
            attribute, length = NAMES[field]
            value = self._escape_name(plain(getattr(self._data, attribute) or "", length))
        else:
            value = FORMATTED[field](self._language, self._data)
        self[field] = value
        return value


# Fields with user input: the attribute of ReservationData, and how much of it is shown.
NAMES = {
    "customer": ("customer_name", NAME_LENGTH),
    "restaurant": ("restaurant_name", NAME_LENGTH),
    "reason": ("reason", REASON_LENGTH),
}

FORMATTED: Mapping[str, Callable[[Language, ReservationData], str]] = {
    "party": lambda language, data: language.party(data.party_size),
    "when": lambda language, data: language.when(data.slot_time, data.timezone),
    "short": lambda language, data: language.short(data.slot_time, data.timezone),
    "proposed": lambda language, data: language.when(data.proposed_time or data.slot_time, data.timezone),
    "proposed_short": lambda language, data: language.short(data.proposed_time or data.slot_time, data.timezone),
    "before": lambda language, data: ", ".join(
        (
            language.party(data.previous_party_size or data.party_size),
            language.when(data.previous_slot_time or data.slot_time, data.timezone),
        )
    ),
}
