"""store.py matches queries.sql."""

import inspect

from notification_fanout import store


def test_the_store_has_one_function_per_query() -> None:
    functions = {name for name, _ in inspect.getmembers(store, inspect.iscoroutinefunction)}
    assert functions == set(store.SQL)
