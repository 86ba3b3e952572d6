"""HTTP on the WebSocket port: health, metrics, the browser client and the staff page.

A connection carries one request and is closed. That is enough for probes, scrapes and a few files.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from urllib.parse import urlsplit

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from tablebell.health import Health

JSON = "application/json"
# A Host header that can stand in a policy: a name or an address, and a port.
HOST = re.compile(r"(?P<name>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")
TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "ts": "text/plain; charset=utf-8",
    "webmanifest": "application/manifest+json",
}
# The files with which the staff page opens, and the gateway's URL of the API.
SHELL = ("/staff/", "/shared/", "/staff.css", "/tablebell.js", "/favicon.svg")


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
        self._files["/shell.js"] = _shell(self._files, self._config)
        # The origin alone: a path in a policy would have to match exactly.
        self._api_origin = "://".join(urlsplit(public_api_url)[:2]) if public_api_url else ""

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
                response = _response(HTTPStatus.OK, JSON, self._config)
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
            "Content-Security-Policy": self._policy(request),
            "Referrer-Policy": "no-referrer",
            # Pages of other origins may import the client.
            "Access-Control-Allow-Origin": "*",
        }
        if file.etag in request.headers.get_all("If-None-Match"):
            return _response(HTTPStatus.NOT_MODIFIED, file.content_type, b"", headers)
        return _response(HTTPStatus.OK, file.content_type, file.body, headers)

    def _policy(self, request: Request) -> str:
        """The page may connect to its own host, where the sockets are, and to the API."""
        hosts = ["'self'"]
        if match := HOST.fullmatch(request.headers.get("Host", "")):
            hosts += [f"ws://{match[0]}", f"wss://{match[0]}"]
            if not self._api_origin:
                hosts += [f"http://{match['name']}:8080", f"https://{match['name']}:8080"]
        if self._api_origin:
            hosts.append(self._api_origin)
        return (
            f"default-src 'self'; connect-src {' '.join(hosts)}; img-src 'self' data:; "
            "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )


def plain(status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> Response:
    return _response(status, "text/plain; charset=utf-8", text.encode(), headers)


def _json(status: HTTPStatus, content: object) -> Response:
    return _response(status, JSON, orjson.dumps(content))


def _response(status: HTTPStatus, content_type: str, body: bytes, more: dict[str, str] | None = None) -> Response:
    headers = Headers(Date=formatdate(usegmt=True), Connection="close")
    headers["Content-Length"] = str(len(body))
    headers["Content-Type"] = content_type
    headers["X-Content-Type-Options"] = "nosniff"
    headers.update({"Cache-Control": "no-store", **(more or {})})
    return Response(status.value, status.phrase, headers, body)


def _load_files() -> dict[str, StaticFile]:
    return dict(_files_in(files("ws_gateway").joinpath("static"), "/"))


def _files_in(folder: Traversable, path: str) -> Iterator[tuple[str, StaticFile]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files_in(entry, f"{path}{entry.name}/")
            continue
        yield path + entry.name, _static_file(TYPES[entry.name.rpartition(".")[2]], entry.read_bytes())


def _static_file(content_type: str, body: bytes) -> StaticFile:
    return StaticFile(content_type, body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def _shell(static: dict[str, StaticFile], config: bytes) -> StaticFile:
    """What the service worker keeps. The version changes with the content: a release replaces the one before."""
    paths = sorted(path for path in static if path.startswith(SHELL))
    contents = [static["/staff.html"].etag, *(static[path].etag for path in paths), config.decode()]
    version = hashlib.sha256("\n".join(contents).encode()).hexdigest()[:16]
    shell = orjson.dumps({"version": version, "files": ["/staff", "/config.json", *paths]})
    return _static_file(TYPES["js"], b"self.shell = " + shell + b";\n")
