"""The web port: the page, the JSON API and the health checks."""

from fastapi import FastAPI

from tablebell_sandbox.fault_api import SetFaults, fault_router
from tablebell_sandbox.fault_board import FaultBoard
from tablebell_sandbox.message_api import message_router
from tablebell_sandbox.page import page_router
from tablebell_sandbox.store import Store


def web_app(store: Store, board: FaultBoard, set_faults: SetFaults) -> FastAPI:
    # FastAPI's own documentation pages load their scripts from elsewhere; /openapi.json stays.
    app = FastAPI(title="Tablebell sandbox", docs_url=None, redoc_url=None)
    app.include_router(message_router(store))
    app.include_router(fault_router(board, set_faults))
    app.include_router(page_router(store, board))

    @app.get("/health/live")
    @app.get("/health/ready")
    async def health() -> dict[str, str]:
        """The web port opens last, so whoever gets an answer here finds every channel open."""
        return {"status": "ok"}

    return app
