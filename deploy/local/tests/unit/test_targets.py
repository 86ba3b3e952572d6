import json
from pathlib import Path

from tablebell_local.instance import Instance
from tablebell_local.system import System


def test_prometheus_finds_every_replica_under_the_name_of_its_service(tmp_path: Path) -> None:
    system = System(Instance.named("dev", tmp_path))
    services = system.services({"event-relay": 2})
    system.instance.create()
    system.instance.ports.assign(
        {name: port for each in services for name, port in each.preferred_ports.items()}, set()
    )

    system.write_targets(services)

    groups = json.loads(system.instance.path("targets.json").read_text())
    found = {(group["labels"]["job"], target) for group in groups for target in group["targets"]}
    relays = {f"127.0.0.1:{system.port(name)}" for name in ("event-relay", "event-relay-2")}
    assert {target for job, target in found if job == "event-relay"} == relays
    assert {job for job, _ in found} == {
        "reservation-api", "ws-gateway", "event-relay", "notification-fanout", "channel-dispatcher",
    }  # fmt: skip
    assert [path.name for path in system.instance.directory.glob("targets*")] == ["targets.json"]
