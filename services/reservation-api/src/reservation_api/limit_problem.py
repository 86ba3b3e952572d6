"""The problem for a request that exceeds a limit: which limit, and when to retry."""

from reservation_api import store
from reservation_api.domain.limits import Limits, reason
from reservation_api.metrics import LIMITS_REACHED
from reservation_api.problem import FieldError, Problem, ProblemType


def limit_problem(row: store.Row, limits: Limits, field: str) -> Problem:
    """`row` has `reached` and `retry_seconds`; `field` is the request's field with the time."""
    LIMITS_REACHED.labels(row["reached"]).inc()
    detail = reason(row["reached"], limits)
    if row["reached"] == "table_gap":
        return Problem(ProblemType.DOUBLE_BOOKING, detail, errors=[FieldError(field=field, message=detail)])
    return Problem(ProblemType.LIMIT_REACHED, detail, headers={"Retry-After": str(row["retry_seconds"])})
