from ws_gateway.registry import Registry


def test_a_session_is_found_at_its_address_until_it_leaves() -> None:
    registry: Registry[str] = Registry(max_per_address=2)
    assert registry.join("CUSTOMER:5", "tab")
    assert registry.at("CUSTOMER:5") == ("tab",)
    assert registry.at("CUSTOMER:6") == ()
    registry.leave("CUSTOMER:5", "tab")
    registry.leave("CUSTOMER:5", "tab")
    assert registry.at("CUSTOMER:5") == ()
    assert list(registry.everyone()) == []


def test_one_too_many_is_turned_away_and_the_others_stay() -> None:
    registry: Registry[str] = Registry(max_per_address=2)
    assert [registry.join("CUSTOMER:5", tab) for tab in ("a", "b", "c")] == [True, True, False]
    assert registry.at("CUSTOMER:5") == ("a", "b")


def test_who_leaves_while_somebody_walks_along_disturbs_nobody() -> None:
    registry: Registry[str] = Registry(max_per_address=3)
    for tab in ("a", "b", "c"):
        registry.join("CUSTOMER:5", tab)
    walked = []
    for tab in registry.at("CUSTOMER:5"):
        registry.leave("CUSTOMER:5", tab)
        walked.append(tab)
    assert walked == ["a", "b", "c"]
