import inspect

from event_relay import store


def test_the_store_has_one_function_per_query() -> None:
    functions = {name for name, value in vars(store).items() if inspect.iscoroutinefunction(value)}
    assert functions == set(store.SQL)
