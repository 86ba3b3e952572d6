"""The start of every service, after its settings are loaded: logs, tracing, then the event loop until it stops."""

from tablebell.lifecycle import Service, run
from tablebell.logs import configure_logs
from tablebell.settings import ServiceSettings
from tablebell.tracing import configure_tracing


def run_service(name: str, settings: ServiceSettings, service: Service) -> int:
    """Run `service` until it is stopped; returns the exit code of the process."""
    configure_logs(name, settings.log_level)
    configure_tracing(name, settings.otel_exporter_otlp_endpoint)
    return run(service, settings.drain_seconds)
