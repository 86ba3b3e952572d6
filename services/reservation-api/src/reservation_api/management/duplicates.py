"""The 409 for something that exists already: which field is the same, and whose it is."""

from reservation_api.problem import DuplicateOf, FieldError, Problem, ProblemType


def duplicate(field: str, what: str, existing_id: int | None) -> Problem:
    """`existing_id` is None if the caller may not see the other one, or if it has been changed in the meantime."""
    which = f"{what.capitalize()} {existing_id}" if existing_id is not None else f"Another {what}"
    message = f"{which} has the same {field}."
    return Problem(
        ProblemType.DUPLICATE,
        message,
        errors=[FieldError(field=field, message=message)],
        duplicate_of=DuplicateOf(field=field, id=existing_id),
    )
