"""The HTTP application: its routes, what surrounds them, and its documentation."""

from datetime import timedelta
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from fastapi_offline import FastAPIOffline
from starlette.responses import HTMLResponse

from reservation_api.address_admin import AddressAdmin
from reservation_api.asking import Asking
from reservation_api.auth import Auth
from reservation_api.bodies import StrictBodies
from reservation_api.deciding import Deciding
from reservation_api.idempotency import Idempotency
from reservation_api.inbox import Inbox
from reservation_api.observing import Observed
from reservation_api.outbox_admin import OutboxAdmin
from reservation_api.preferences import PreferenceBook
from reservation_api.problem import ProblemBody, answer_with_problems
from reservation_api.protecting import Protected, page_policy
from reservation_api.ratelimit import RateLimit
from reservation_api.reservations import Reservations
from reservation_api.responding import Responding
from reservation_api.restaurants import Restaurants
from reservation_api.routes.admin import admin_routes
from reservation_api.routes.customer import customer_routes
from reservation_api.routes.me import me_routes
from reservation_api.routes.notifications import notification_routes
from reservation_api.routes.restaurant import restaurant_routes
from reservation_api.settings import Settings
from reservation_api.trace import Tracing
from tablebell.health import Health
from tablebell.postgres import Pool
from tablebell.tokens import TokenVerifier
from tablebell.wakeups import Announcer
from tablebell.web import mount_health

DESCRIPTION = """
Reservations, and the notifications that follow from them.

Everything needs a bearer token (**Authorize**, above), which says who is asking: a `CUSTOMER`, a `RESTAURANT_USER`, an
`ADMIN_USER` or an `AGENCY_USER`. 401 means that there is no valid token, 403 that such a user never may, 404 that there
is no such thing *or that it is not yours*. Every error is an `application/problem+json` (RFC 9457), of which `detail`
says what is wrong and `errors` in which field.

Lists have pages: send `nextCursor` as `cursor` to go on. `X-Correlation-Id` and `traceparent` are taken up if you send
them; `X-Correlation-Id` is in every answer, and finds the request in the logs of all services.
"""

TAGS = [
    {"name": "Customers", "description": "Ask for a table; change and cancel."},
    {"name": "Restaurants", "description": "Accept, reject, propose another time. The first to act decides."},
    {"name": "Inbox", "description": "Notifications of whoever asks, and what they do with them."},
    {"name": "Preferences", "description": "By which channels, of what, and when."},
    {"name": "Operators", "description": "The outbox at all three levels, and the story of a reservation."},
]


def build_app(
    settings: Settings, pool: Pool, announcer: Announcer, idempotency: Idempotency, health: Health
) -> FastAPI:
    app = FastAPIOffline(
        docs_url=None,
        title="Tablebell reservations",
        version="1.0.0",
        description=DESCRIPTION,
        openapi_tags=TAGS,
        redoc_url=None,
        # A path is one path: a redirect would lose the body and the method for some clients.
        redirect_slashes=False,
    )
    horizon = timedelta(days=settings.booking_horizon_days)
    auth = Auth(
        TokenVerifier.from_settings(settings), RateLimit(settings.rate_limit_per_second, settings.rate_limit_burst)
    )
    restaurants = Restaurants(settings.restaurant_cache_seconds)
    reservations = Reservations(pool)
    deciding = Deciding(pool, restaurants, announcer, horizon=horizon, limits=settings.limits)
    asking = Asking(pool, restaurants, idempotency, announcer, horizon=horizon, limits=settings.limits)

    app.include_router(customer_routes(auth, asking, reservations, deciding))
    app.include_router(restaurant_routes(auth, reservations, deciding))
    app.include_router(notification_routes(auth, Inbox(pool, announcer), Responding(pool, deciding, announcer)))
    app.include_router(me_routes(auth, PreferenceBook(pool)))
    app.include_router(admin_routes(auth, OutboxAdmin(pool, announcer), AddressAdmin(pool), Tracing(pool)))
    mount_health(app, health)

    answer_with_problems(app)
    app.add_middleware(StrictBodies, limit=settings.body_limit_bytes)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=settings.cors_allowed_origins,
        allow_methods=["GET", "POST", "PUT", "PATCH"],
        allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "X-Correlation-Id", "traceparent"],
        expose_headers=["Retry-After", "X-Correlation-Id"],
    )
    app.add_middleware(Observed)
    app.add_middleware(Protected)  # added last: the outermost
    describe(app)
    return app


def describe(app: FastAPI) -> None:
    """The page of the documentation, and the schema of a problem, to which every route's errors refer."""
    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title=app.title,
        swagger_js_url="/static-offline-docs/swagger-ui-bundle.js",
        swagger_css_url="/static-offline-docs/swagger-ui.css",
        swagger_favicon_url="/static-offline-docs/favicon.png",
    ).body

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page, headers={"Content-Security-Policy": page_policy(bytes(page))})

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
                tags=app.openapi_tags,
            )
            problem = ProblemBody.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
            schemas = schema["components"]["schemas"]
            schemas.update(problem.pop("$defs", {}))
            schemas["Problem"] = problem
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
