import pytest

from tablebell.correlation import TRACEPARENT, Correlation, correlated, current

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_the_ids_of_a_caller_are_kept() -> None:
    assert Correlation.begin("order-1:a.b", PARENT) == Correlation("order-1:a.b", PARENT)


@pytest.mark.parametrize("bad", [None, "", "a b", "x" * 65, "line\nbreak", 'quote"'])
def test_an_unsafe_correlation_id_is_replaced(bad: str | None) -> None:
    assert Correlation.begin(bad).correlation_id not in {bad, ""}


@pytest.mark.parametrize("bad", [None, "", "00-zz-1-01", PARENT + "x", PARENT.upper(), "00-" + "0" * 32 + PARENT[35:]])
def test_a_malformed_traceparent_is_replaced(bad: str | None) -> None:
    made = Correlation.begin("c", bad).traceparent
    assert made != bad
    assert TRACEPARENT.fullmatch(made)


def test_it_survives_a_row_and_a_message() -> None:
    correlation = Correlation.begin()
    assert Correlation.from_headers(correlation.as_headers()) == correlation


def test_it_holds_within_its_block_and_not_after() -> None:
    correlation = Correlation.begin("inside")
    with correlated(correlation):
        assert current() is correlation
    assert current().correlation_id != "inside"
