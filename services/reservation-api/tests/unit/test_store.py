"""The store and its SQL name the same things."""

import inspect

from reservation_api import store


def test_every_query_has_a_function_of_its_name_and_every_function_a_query() -> None:
    functions = {
        name
        for name, function in inspect.getmembers(store, inspect.iscoroutinefunction)
        if function.__module__ == store.__name__
    }
    assert functions == set(store.SQL)
