import asyncpg
import pytest

from tablebell.outage import DATA_ERRORS, ROW_ERRORS, StatementRefused, is_outage, raise_if_outage

DATA = [asyncpg.NumericValueOutOfRangeError("x"), asyncpg.UniqueViolationError("x")]
STORED_ROW = [asyncpg.RaiseError("x"), asyncpg.DataCorruptedError("x")]
EVERY_ROW = [asyncpg.InsufficientPrivilegeError("x"), asyncpg.UndefinedColumnError("x")]


@pytest.mark.parametrize("error", [*DATA, KeyError("x")])
def test_an_error_of_the_data_is_no_outage(error: Exception) -> None:
    assert not is_outage(error)
    raise_if_outage(error, DATA_ERRORS)
    raise_if_outage(error, ROW_ERRORS)


@pytest.mark.parametrize("error", STORED_ROW)
def test_a_trigger_or_a_damaged_page_is_an_error_of_a_stored_row_and_not_of_a_message(error: Exception) -> None:
    raise_if_outage(error, ROW_ERRORS)
    with pytest.raises(StatementRefused):
        raise_if_outage(error, DATA_ERRORS)


@pytest.mark.parametrize("error", EVERY_ROW)
def test_a_statement_that_fails_for_every_row_is_an_outage(error: Exception) -> None:
    assert is_outage(error)
    with pytest.raises(StatementRefused):
        raise_if_outage(error)


@pytest.mark.parametrize("error", [ConnectionResetError("x"), asyncpg.DeadlockDetectedError("x")])
def test_an_outage_is_raised_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)):
        raise_if_outage(error)
