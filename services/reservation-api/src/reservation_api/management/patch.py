"""The body of a PATCH: omitted fields stay unchanged, null clears a field."""

from typing import Any, ClassVar

from pydantic import model_validator
from pydantic.alias_generators import to_camel

from reservation_api.schemas import Body


class Patch(Body):
    required: ClassVar[frozenset[str]] = frozenset()
    """Fields that cannot be cleared."""

    @model_validator(mode="after")
    def changes_something(self) -> "Patch":
        if not self.model_fields_set:
            raise ValueError("at least one field is required")
        for field in sorted(self.required & self.model_fields_set):
            if getattr(self, field) is None:
                raise ValueError(f"{to_camel(field)} cannot be null")
        return self

    def given(self) -> dict[str, Any]:
        """The given fields as JSON values; exclude_unset would also drop defaults inside of them."""
        return self.model_dump(mode="json", include=self.model_fields_set)
