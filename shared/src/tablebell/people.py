"""Users, audiences and channels. Pure."""

from enum import StrEnum


class UserType(StrEnum):
    CUSTOMER = "CUSTOMER"
    RESTAURANT_USER = "RESTAURANT_USER"
    ADMIN_USER = "ADMIN_USER"
    AGENCY_USER = "AGENCY_USER"


class Audience(StrEnum):
    """The group of users that an event notifies; the notification_type of L1."""

    RESTAURANT = "RESTAURANT"
    CUSTOMER = "CUSTOMER"
    ADMIN = "ADMIN"
    AGENCY = "AGENCY"

    @property
    def user_type(self) -> UserType:
        return _USER_TYPES[self]

    @property
    def listener(self) -> str:
        return f"{self}_LISTENER"


_USER_TYPES = {
    Audience.RESTAURANT: UserType.RESTAURANT_USER,
    Audience.CUSTOMER: UserType.CUSTOMER,
    Audience.ADMIN: UserType.ADMIN_USER,
    Audience.AGENCY: UserType.AGENCY_USER,
}


class Channel(StrEnum):
    EMAIL = "EMAIL"
    SMS = "SMS"
    PUSH = "PUSH"
    SLACK = "SLACK"
    WEBSOCKET = "WEBSOCKET"  # the live channel: never a row of L2


DURABLE_CHANNELS = (Channel.EMAIL, Channel.SMS, Channel.PUSH, Channel.SLACK)

SHARED_CHANNELS = frozenset({Channel.SLACK})
"""Channels with an address that several people share. An event is sent to it once."""

DEFAULT_CHANNELS: dict[UserType, tuple[Channel, ...]] = {
    UserType.RESTAURANT_USER: (Channel.EMAIL, Channel.SMS, Channel.PUSH),
    UserType.CUSTOMER: (Channel.EMAIL, Channel.SMS, Channel.PUSH),
    UserType.ADMIN_USER: (Channel.EMAIL, Channel.SLACK),
    UserType.AGENCY_USER: (Channel.EMAIL,),
}
