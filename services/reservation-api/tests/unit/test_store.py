"""Each store matches its queries."""

import inspect
from types import ModuleType

import pytest

from reservation_api import store
from reservation_api.management import store as management_store
from reservation_api.sign_in import store as sign_in_store


@pytest.mark.parametrize(
    "module", [store, management_store, sign_in_store], ids=["reservations", "management", "sign_in"]
)
def test_queries_and_functions_have_the_same_names(module: ModuleType) -> None:
    functions = {
        name
        for name, function in inspect.getmembers(module, inspect.iscoroutinefunction)
        if function.__module__ == module.__name__
    }
    assert functions == set(module.SQL)
