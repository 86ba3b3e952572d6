"""HTTP on the WebSocket port: health, metrics, the browser client and the staff page.

A connection carries one request and is closed. That is enough for probes, scrapes and a few files.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from tablebell.health import Health

JSON = "application/json"
TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    content_type: str
    body: bytes
    etag: str


class Pages:
    def __init__(self, health: Health, public_api_url: str) -> None:
        self._health = health
        self._config = orjson.dumps({"apiUrl": public_api_url})
        self._files = _load_files()
        # Without the setting the page calls port 8080 of its own host. Only the browser knows that host.
        api = public_api_url or "http: https:"
        self._policy = (
            f"default-src 'self'; connect-src 'self' ws: wss: {api}; img-src 'self' data:; "
            "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )

    async def respond(self, request: Request) -> Response:
        if request.method != "GET":
            return plain(HTTPStatus.METHOD_NOT_ALLOWED, "GET only\n", {"Allow": "GET"})
        match request.path.partition("?")[0]:
            case "/health/live":
                response = _json(HTTPStatus.OK, {"status": "live"})
            case "/health/ready":
                response = await self._ready()
            case "/metrics":
                await self._health.report()
                response = _response(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest())
            case "/config.json":
                response = _response(HTTPStatus.OK, JSON, self._config, {"Cache-Control": "no-store"})
            case "/":
                response = plain(HTTPStatus.FOUND, "", {"Location": "/staff"})
            case "/staff":
                response = self._file("/staff.html", request)
            case path:
                response = self._file(path, request)
        return response

    async def _ready(self) -> Response:
        problems = await self._health.report()
        if problems:
            return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "not ready", "because": problems})
        return _json(HTTPStatus.OK, {"status": "ready"})

    def _file(self, path: str, request: Request) -> Response:
        file = self._files.get(path)
        if file is None:
            return plain(HTTPStatus.NOT_FOUND, "not found\n")
        headers = {
            "ETag": file.etag,
            "Cache-Control": "no-cache",
            "Content-Security-Policy": self._policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            # Pages of other origins may import the client.
            "Access-Control-Allow-Origin": "*",
        }
        if file.etag in request.headers.get_all("If-None-Match"):
            return _response(HTTPStatus.NOT_MODIFIED, file.content_type, b"", headers)
        return _response(HTTPStatus.OK, file.content_type, file.body, headers)


def plain(status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> Response:
    return _response(status, "text/plain; charset=utf-8", text.encode(), headers)


def _json(status: HTTPStatus, content: object) -> Response:
    return _response(status, JSON, orjson.dumps(content))


def _response(status: HTTPStatus, content_type: str, body: bytes, more: dict[str, str] | None = None) -> Response:
    headers = Headers(Date=formatdate(usegmt=True), Connection="close")
    headers["Content-Length"] = str(len(body))
    headers["Content-Type"] = content_type
    headers.update(more or {})
    return Response(status.value, status.phrase, headers, body)


def _load_files() -> dict[str, StaticFile]:
    return dict(_files_in(files("ws_gateway").joinpath("static"), "/"))


def _files_in(folder: Traversable, path: str) -> Iterator[tuple[str, StaticFile]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files_in(entry, f"{path}{entry.name}/")
            continue
        body = entry.read_bytes()
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        yield path + entry.name, StaticFile(TYPES[entry.name.rpartition(".")[2]], body, etag)
