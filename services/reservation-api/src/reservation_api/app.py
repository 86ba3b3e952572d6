"""The HTTP application: routes, middleware, OpenAPI documentation."""

from datetime import timedelta
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from fastapi_offline import FastAPIOffline
from starlette.responses import HTMLResponse

from reservation_api.access import AccessControl
from reservation_api.address_admin import AddressAdmin
from reservation_api.auth import Auth
from reservation_api.availability import PublicRestaurants
from reservation_api.body_limit import BodyLimit
from reservation_api.create_reservation import CreateReservation
from reservation_api.idempotency import Idempotency
from reservation_api.inbox import Inbox
from reservation_api.management.agencies import Agencies
from reservation_api.management.changes import Changes
from reservation_api.management.members import Members
from reservation_api.management.people import PeopleAdmin
from reservation_api.management.people_import import PeopleImport
from reservation_api.management.profile import Profiles
from reservation_api.management.restaurants import RestaurantAdmin
from reservation_api.notification_actions import NotificationActions
from reservation_api.outbox_admin import OutboxAdmin
from reservation_api.preferences import PreferenceService
from reservation_api.problem import ProblemBody, answer_with_problems
from reservation_api.ratelimit import RateLimit
from reservation_api.request_middleware import RequestMiddleware
from reservation_api.reservation_commands import ReservationCommands
from reservation_api.reservation_history import ReservationHistory
from reservation_api.reservations import Reservations
from reservation_api.restaurants import Restaurants
from reservation_api.routes.admin import admin_routes
from reservation_api.routes.agency import agency_routes
from reservation_api.routes.customer import customer_routes
from reservation_api.routes.internal import internal_routes
from reservation_api.routes.keys import key_routes
from reservation_api.routes.managed_people import managed_people_routes
from reservation_api.routes.managed_restaurants import managed_restaurant_routes
from reservation_api.routes.me import me_routes
from reservation_api.routes.notifications import notification_routes
from reservation_api.routes.own_restaurant import own_restaurant_routes
from reservation_api.routes.people_import import import_routes
from reservation_api.routes.public import public_routes
from reservation_api.routes.restaurant import restaurant_routes
from reservation_api.routes.session import session_routes
from reservation_api.routes.sign_in import sign_in_routes
from reservation_api.security_headers import SecurityHeaders, page_policy
from reservation_api.settings import Settings
from reservation_api.sign_in.links import SignInLinks
from reservation_api.sign_in.sessions import Sessions
from reservation_api.source_limit import SourceLimit
from tablebell.health import Health
from tablebell.postgres import Pool
from tablebell.tokens import TokenVerifier
from tablebell.wakeups import WakeupSender
from tablebell.web import mount_health

DESCRIPTION = """
Reservations and their notifications.

Every request but the public ones needs a bearer token (**Authorize**, above). It identifies a `CUSTOMER`, a
`RESTAURANT_USER`, an `ADMIN_USER` or an `AGENCY_USER`. 401: there is no valid token. 403: this user type or role has no
access. 404: the resource does not exist *or is not yours*. Every error is an `application/problem+json` (RFC 9457):
`detail` describes the problem, `errors` names the fields.

Lists are paged: send `nextCursor` as `cursor` to get the next page. Requests may send `X-Correlation-Id` and
`traceparent`. Every response has an `X-Correlation-Id`, which appears in the logs of all services.
"""

TAGS = [
    {"name": "Public", "description": "Restaurants and the times that they accept. No token is needed."},
    {"name": "Sign-in", "description": "A link by e-mail, and the session that follows from it. No token is needed."},
    {"name": "Customers", "description": "Request, change and cancel reservations."},
    {"name": "Restaurants", "description": "Accept or reject reservations, or propose another time."},
    {"name": "Inbox", "description": "The notifications of the current user, and actions on them."},
    {"name": "Agencies", "description": "Manage the customers of an agency."},
    {
        "name": "Profile and preferences",
        "description": "Name, telephone, language; channels, quiet hours, sign-out.",
    },
    {"name": "Management", "description": "Restaurants, agencies and people, and who changed them."},
    {"name": "Operators", "description": "Outbox levels, undeliverable addresses, reservation history."},
]


def build_app(
    settings: Settings, pool: Pool, wakeup_sender: WakeupSender, idempotency: Idempotency, health: Health
) -> FastAPI:
    app = FastAPIOffline(
        docs_url=None,
        title="Tablebell reservations",
        version="1.0.0",
        description=DESCRIPTION,
        openapi_tags=TAGS,
        redoc_url=None,
        # Some clients drop the method and the body when they follow a redirect.
        redirect_slashes=False,
    )
    horizon = timedelta(days=settings.booking_horizon_days)
    auth = Auth(
        TokenVerifier.from_settings(settings),
        AccessControl(pool, settings.person_cache_seconds),
        RateLimit(settings.rate_limit_per_second, settings.rate_limit_burst),
        RateLimit(settings.auth_failures_per_second, settings.auth_failures_burst),
    )
    members = Members(auth, pool)
    managed_restaurants = RestaurantAdmin(pool)
    people = PeopleAdmin(pool)
    restaurants = Restaurants(settings.restaurant_cache_seconds)
    reservations = Reservations(pool)
    commands = ReservationCommands(
        pool,
        restaurants,
        wakeup_sender,
        horizon=horizon,
        limits=settings.limits,
        undo=timedelta(seconds=settings.undo_seconds),
    )
    create_reservation = CreateReservation(
        pool, restaurants, idempotency, wakeup_sender, horizon=horizon, limits=settings.limits
    )

    per_source = SourceLimit(RateLimit(settings.rate_limit_per_second, settings.rate_limit_burst))
    app.include_router(public_routes(per_source, PublicRestaurants(pool, restaurants, horizon)))
    app.include_router(customer_routes(auth, create_reservation, reservations, commands))
    app.include_router(restaurant_routes(auth, reservations, commands))
    app.include_router(
        notification_routes(auth, Inbox(pool, wakeup_sender), NotificationActions(pool, commands, wakeup_sender))
    )
    app.include_router(me_routes(auth, members, Profiles(pool, people), PreferenceService(pool)))
    app.include_router(session_routes(auth, pool))
    sessions = Sessions(pool, settings.signing_key(), settings.token_rules)
    links = SignInLinks(
        pool, wakeup_sender, sessions, pages_url=settings.pages_url, per_hour=settings.sign_in_mails_per_hour
    )
    asks_per_source = SourceLimit(RateLimit(settings.sign_in_per_second, settings.sign_in_burst))
    app.include_router(sign_in_routes(links, sessions, asks_per_source, per_source))
    app.include_router(own_restaurant_routes(members, managed_restaurants, people))
    app.include_router(agency_routes(members, people))
    app.include_router(managed_restaurant_routes(members, managed_restaurants, Agencies(pool)))
    app.include_router(managed_people_routes(members, people, Changes(pool)))
    app.include_router(import_routes(members, PeopleImport(pool)))
    app.include_router(
        admin_routes(auth, OutboxAdmin(pool, wakeup_sender), AddressAdmin(pool), ReservationHistory(pool))
    )
    app.include_router(key_routes(settings.signing_key()))
    app.include_router(internal_routes(pool, settings.internal_api_token))
    mount_health(app, health)

    answer_with_problems(app)
    app.add_middleware(BodyLimit, limit=settings.body_limit_bytes)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=settings.cors_allowed_origins,
        allow_methods=["GET", "POST", "PUT", "PATCH"],
        allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "X-Correlation-Id", "traceparent"],
        expose_headers=["Retry-After", "X-Correlation-Id"],
    )
    app.add_middleware(RequestMiddleware)
    app.add_middleware(SecurityHeaders)  # added last, so outermost
    describe(app)
    return app


def describe(app: FastAPI) -> None:
    """Serve /docs, and add the schema of a problem, which the error responses of all routes refer to."""
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
