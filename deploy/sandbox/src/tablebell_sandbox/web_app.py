"""The web port: the page, the JSON API and the health checks."""

from fastapi import FastAPI

from tablebell_sandbox.active_faults import ActiveFaults
from tablebell_sandbox.fault_api import SetFaults, fault_router
from tablebell_sandbox.message_api import message_router
from tablebell_sandbox.page import page_router
from tablebell_sandbox.store import Store


def web_app(store: Store, active_faults: ActiveFaults, set_faults: SetFaults) -> FastAPI:
    # FastAPI's documentation pages load scripts from other hosts; /openapi.json stays.
    app = FastAPI(title="Tablebell sandbox", docs_url=None, redoc_url=None)
    app.include_router(message_router(store))
    app.include_router(fault_router(active_faults, set_faults))
    app.include_router(page_router(store, active_faults))

    @app.get("/health/live")
    @app.get("/health/ready")
    async def health() -> dict[str, str]:
        """The web port opens last: a response here means that every channel is open."""
        return {"status": "ok"}

    return app
