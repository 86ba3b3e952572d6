import httpx
from fastapi import FastAPI
from prometheus_client import Gauge

from tablebell.health import Health
from tablebell.lifecycle import Stop
from tablebell.web import health_app

LOOKED_AT = Gauge("test_looked_at", "How often a scrape refreshed it")


async def get(app: FastAPI, path: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as http:
        return await http.get(path)


async def well() -> None:
    pass


async def ill() -> None:
    raise ConnectionRefusedError("nobody there")


async def test_ready_names_the_failed_checks(stop: Stop) -> None:
    app = health_app("test", Health(stop, {"postgres": well, "rabbitmq": ill}))
    answer = await get(app, "/health/ready")
    assert answer.status_code == 503
    assert answer.json()["because"] == {"rabbitmq": "ConnectionRefusedError: nobody there"}
    assert (await get(app, "/health/live")).status_code == 200


async def test_a_stopping_service_is_not_ready(stop: Stop) -> None:
    app = health_app("test", Health(stop, {"postgres": well}))
    assert (await get(app, "/health/ready")).status_code == 200
    stop.request()
    assert (await get(app, "/health/ready")).status_code == 503


async def test_metrics_are_refreshed_at_a_scrape(stop: Stop) -> None:
    async def refresh() -> None:
        LOOKED_AT.inc()

    app = health_app("test", Health(stop), refresh)
    before = LOOKED_AT._value.get()
    answer = await get(app, "/metrics")
    assert f"test_looked_at {before + 1}" in answer.text


async def test_metrics_are_served_during_an_outage_of_their_source(stop: Stop) -> None:
    answer = await get(health_app("test", Health(stop), ill), "/metrics")
    assert answer.status_code == 200
    assert "test_looked_at" in answer.text


async def test_a_scrape_reports_each_dependency(stop: Stop) -> None:
    answer = await get(health_app("test", Health(stop, {"postgres": well, "rabbitmq": ill})), "/metrics")
    assert 'service_dependency_up{dependency="postgres"} 1.0' in answer.text
    assert 'service_dependency_up{dependency="rabbitmq"} 0.0' in answer.text
