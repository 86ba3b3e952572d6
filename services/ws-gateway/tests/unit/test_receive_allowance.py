from ws_gateway.allowance import Allowance


def test_a_burst_is_allowed_and_no_more() -> None:
    allowance = Allowance(burst=3, per_second=1, now=0.0)
    assert [allowance.spend(0.0) for _ in range(4)] == [True, True, True, False]


def test_time_gives_back_but_never_more_than_the_burst() -> None:
    allowance = Allowance(burst=2, per_second=1, now=0.0)
    assert [allowance.spend(0.0) for _ in range(3)] == [True, True, False]
    assert [allowance.spend(1.0) for _ in range(2)] == [True, False]
    assert [allowance.spend(1_000.0) for _ in range(3)] == [True, True, False]
