"""store.py and queries.sql match."""

import inspect

from reservation_api import store


def test_queries_and_functions_have_the_same_names() -> None:
    functions = {
        name
        for name, function in inspect.getmembers(store, inspect.iscoroutinefunction)
        if function.__module__ == store.__name__
    }
    assert functions == set(store.SQL)
