from typing import Any

import httpx
import pytest

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.testing import RunningSandbox


async def test_faults_are_set_listed_and_deleted(web: httpx.AsyncClient) -> None:
    faults = [{"kind": "http", "status": 503, "count": 3}, {"kind": "delay", "seconds": 1.5, "for_seconds": 60}]
    answer = await web.put("/api/faults/sms", json=faults)
    await web.put("/api/faults/EMAIL", json=[{"kind": "smtp", "code": 450}])

    assert answer.status_code == 200
    listed = (await web.get("/api/faults")).json()
    assert listed["SMS"][0] == {"kind": "http", "status": 503, "accept": False, "count": 3, "remaining": 3}
    assert 59 < listed["SMS"][1]["ends_in_seconds"] <= 60
    assert listed["EMAIL"] == [{"kind": "smtp", "code": 450}]

    assert (await web.delete("/api/faults/SMS")).status_code == 204
    assert (await web.get("/api/faults")).json()["SMS"] == []
    assert (await web.delete("/api/faults")).status_code == 204
    assert (await web.get("/api/faults")).json() == {channel: [] for channel in Channel}


async def test_the_remaining_count_is_listed_until_it_is_used_up(
    sandbox: RunningSandbox, web: httpx.AsyncClient, http: httpx.AsyncClient
) -> None:
    await web.put("/api/faults/SLACK", json=[{"kind": "http", "status": 500, "count": 2}])
    remaining = []
    for _ in range(3):
        remaining.append([fault["remaining"] for fault in (await web.get("/api/faults")).json()["SLACK"]])
        await http.post(sandbox.slack_url, json={"text": "x"})

    assert remaining == [[2], [1], []]


@pytest.mark.parametrize(
    ("channel", "fault", "complaint"),
    [
        ("SMS", {"kind": "smtp", "code": 450}, "does not match any of the expected tags"),
        ("EMAIL", {"kind": "http", "status": 500}, "does not match any of the expected tags"),
        ("SLACK", {"kind": "unregistered"}, "does not match any of the expected tags"),
        ("SMS", {"status": 500}, "Unable to extract tag using discriminator 'kind'"),
        ("SMS", {"kind": "http"}, "Field required"),
        ("SMS", {"kind": "http", "status": 200}, "greater than or equal to 400"),
        ("SMS", {"kind": "http", "status": 500, "probability": 1.5}, "less than or equal to 1"),
        ("SMS", {"kind": "http", "status": 500, "count": 0}, "greater than or equal to 1"),
        ("SMS", {"kind": "http", "status": 500, "count": 1, "probability": 0.5}, "either probability or count"),
        ("SMS", {"kind": "http", "status": 500, "typo": 1}, "Extra inputs are not permitted"),
        ("SMS", {"kind": "delay", "seconds": 0}, "greater than 0"),
        ("SMS", {"kind": "refuse", "count": 3}, "Extra inputs are not permitted"),
        ("SMS", {"kind": "refuse", "for_seconds": -1}, "greater than 0"),
        ("EMAIL", {"kind": "smtp", "code": 535, "match": "anna"}, "no recipient to match before RCPT"),
        ("PUSH", {"kind": "token", "status": 503, "match": "x"}, "no recipient to match"),
    ],
)
async def test_an_invalid_fault_is_a_422_with_the_reason(
    web: httpx.AsyncClient, channel: str, fault: dict[str, Any], complaint: str
) -> None:
    response = await web.put(f"/api/faults/{channel}", json=[{"kind": "delay", "seconds": 1}, fault])

    assert response.status_code == 422
    (problem,) = response.json()["detail"]
    assert complaint in problem["msg"]
    assert problem["loc"][0] == 1
    assert (await web.get("/api/faults")).json()[channel] == []


@pytest.mark.parametrize("body", [b"nonsense", b"{}", b'{"kind": "refuse"}', b"\xff"])
async def test_anything_but_a_list_is_a_422(web: httpx.AsyncClient, body: bytes) -> None:
    assert (await web.put("/api/faults/SMS", content=body)).status_code == 422


async def test_an_unknown_channel_is_a_422_with_the_known_ones(web: httpx.AsyncClient) -> None:
    response = await web.put("/api/faults/PIGEON", json=[])

    assert response.status_code == 422
    assert "'EMAIL', 'SMS', 'PUSH' or 'SLACK'" in response.text
