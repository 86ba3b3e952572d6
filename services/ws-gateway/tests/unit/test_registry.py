from ws_gateway.registry import Registry


def test_a_session_is_found_by_its_address_until_it_is_removed() -> None:
    registry: Registry[str] = Registry(max_per_address=2)
    assert registry.add("CUSTOMER:5", "tab")
    assert registry.get("CUSTOMER:5") == ("tab",)
    assert registry.get("CUSTOMER:6") == ()
    registry.remove("CUSTOMER:5", "tab")
    registry.remove("CUSTOMER:5", "tab")
    assert registry.get("CUSTOMER:5") == ()
    assert list(registry.all()) == []


def test_a_session_above_the_limit_is_not_added() -> None:
    registry: Registry[str] = Registry(max_per_address=2)
    assert [registry.add("CUSTOMER:5", tab) for tab in ("a", "b", "c")] == [True, True, False]
    assert registry.get("CUSTOMER:5") == ("a", "b")


def test_sessions_can_be_removed_during_an_iteration() -> None:
    registry: Registry[str] = Registry(max_per_address=3)
    for tab in ("a", "b", "c"):
        registry.add("CUSTOMER:5", tab)
    visited = []
    for tab in registry.get("CUSTOMER:5"):
        registry.remove("CUSTOMER:5", tab)
        visited.append(tab)
    assert visited == ["a", "b", "c"]
