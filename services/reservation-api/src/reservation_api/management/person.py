"""A person in requests and responses, and the rules for the fields of each user type."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field, StrictBool

from reservation_api.management.fields import Email, ExternalId, Locale, Name, Phone, Role, Timezone
from reservation_api.management.patch import Patch
from reservation_api.management.store import Row
from reservation_api.problem import Problem
from reservation_api.schemas import Body, Id
from tablebell.events import CamelModel
from tablebell.people import UserType

ROLES = {
    UserType.RESTAURANT_USER: (Role.MANAGER, Role.STAFF),
    UserType.ADMIN_USER: (Role.ADMIN, Role.READ_ONLY),
}
# The field that names a person's restaurant or agency, and whether it is required.
PLACES = {
    UserType.CUSTOMER: ("agency_id", False),
    UserType.RESTAURANT_USER: ("restaurant_id", True),
    UserType.AGENCY_USER: ("agency_id", True),
}
FIELDS = (
    "external_id", "name", "email", "phone", "fcm_token", "locale", "timezone", "restaurant_id", "agency_id", "role",
    "active",
)  # fmt: skip

EXAMPLE: dict[str, Any] = {
    "name": "Anna Bianchi",
    "email": "anna.bianchi@mail.example",
    "phone": "+393330000005",
    "locale": "it",
    "timezone": "Europe/Rome",
}


class NewCustomer(Body):
    """An e-mail address or a telephone number is required."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    name: Name
    email: Email | None = None
    phone: Phone | None = None
    locale: Locale | None = Field(None, description="Default: that of the restaurant for staff, otherwise `it`.")
    timezone: Timezone | None = Field(
        None, description="Default: that of the restaurant for staff, otherwise `Europe/Rome`."
    )
    external_id: ExternalId | None = Field(None, description="The person's id in another system.")


class NewStaff(NewCustomer):
    model_config = ConfigDict(json_schema_extra={"example": {**EXAMPLE, "role": "STAFF"}})

    role: Role = Role.STAFF


class NewPerson(NewCustomer):
    """`restaurantId` is required for restaurant users, `agencyId` for agency users, `role` for admins.

    Restaurant users are `MANAGER` or `STAFF` (the default), admins are `ADMIN` or `READ_ONLY`.
    """

    model_config = ConfigDict(json_schema_extra={"example": {**EXAMPLE, "role": "MANAGER", "restaurantId": 10}})

    role: Role | None = None
    restaurant_id: Id | None = None
    agency_id: Id | None = None


class PersonChange(Patch):
    """Omitted fields stay unchanged, null clears a field."""

    model_config = ConfigDict(json_schema_extra={"example": {"phone": "+393330000005", "locale": "en"}})
    required = frozenset({"name", "locale", "timezone"})

    name: Name | None = None
    email: Email | None = None
    phone: Phone | None = None
    locale: Locale | None = None
    timezone: Timezone | None = None
    external_id: ExternalId | None = None
    role: Role | None = None
    restaurant_id: Id | None = None
    agency_id: Id | None = None


class CustomerChange(Patch):
    """Omitted fields stay unchanged, null clears a field. An inactive person is not notified and cannot sign in."""

    model_config = ConfigDict(json_schema_extra={"example": {"phone": "+393330000005", "locale": "en"}})
    required = frozenset({"name", "locale", "timezone", "active"})

    name: Name | None = None
    email: Email | None = None
    phone: Phone | None = None
    locale: Locale | None = None
    timezone: Timezone | None = None
    external_id: ExternalId | None = None
    active: StrictBool | None = None


class StaffChange(CustomerChange):
    model_config = ConfigDict(json_schema_extra={"example": {"role": "MANAGER"}})
    required = frozenset({"name", "locale", "timezone", "active", "role"})

    role: Role | None = None


class PersonView(CamelModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "userType": "RESTAURANT_USER",
                "id": 50,
                **EXAMPLE,
                "externalId": None,
                "role": "MANAGER",
                "restaurantId": 10,
                "agencyId": None,
                "active": True,
                "createdAt": "2027-11-01T18:03:20.104211Z",
                "updatedAt": "2027-11-01T18:03:20.104211Z",
            }
        }
    )

    user_type: UserType
    id: int
    external_id: str | None
    name: str
    email: str | None
    phone: str | None
    locale: str
    timezone: str
    role: Role | None
    restaurant_id: int | None
    agency_id: int | None
    active: bool
    created_at: datetime
    updated_at: datetime


def view(row: Row) -> PersonView:
    return PersonView(id=row["user_id"], **{field: row[field] for field in PersonView.model_fields if field != "id"})


def fields_of_new(user_type: UserType, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a new person, with the default role. Raises a Problem if they do not fit the user type."""
    fields = {"role": Role.STAFF if user_type is UserType.RESTAURANT_USER else None}
    fields |= {field: value for field, value in given.items() if value is not None}
    check_fields(user_type, fields)
    if fields.get("email") is None and fields.get("phone") is None:
        raise Problem.of_field("email", "An e-mail address or a telephone number is required.")
    return fields


def check_fields(user_type: UserType, fields: Mapping[str, Any]) -> None:
    """Raises a Problem if the role, the restaurant or the agency do not fit the user type."""
    role, roles = fields.get("role"), ROLES.get(user_type, ())
    if role not in (roles or (None,)):
        message = f"should be {' or '.join(roles)}" if roles else f"A {user_type} has no role."
        raise Problem.of_field("role", message)
    place, required = PLACES.get(user_type, (None, False))
    for field, name in (("restaurant_id", "restaurantId"), ("agency_id", "agencyId")):
        if field == place and required and fields.get(field) is None:
            raise Problem.of_field(name, f"A {user_type} needs one.")
        if field != place and fields.get(field) is not None:
            raise Problem.of_field(name, f"A {user_type} has none.")
