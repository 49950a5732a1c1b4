"""Access control: the Host and Origin of every request, the token where there is one, and headers for browsers.

Another web site can make a browser send requests to localhost, directly or by giving its own name our address. Both
show in the headers Origin and Host, so a request that names another site is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ... import pages

LOCAL = ("localhost", "127.0.0.1", "[::1]")
COOKIE = "hynet-app"
HEADERS = {
    # Our own files only, nothing inline: a file name with HTML in it could do nothing even if it were not escaped.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; frame-src 'self'; frame-ancestors 'self'; form-action 'self'; base-uri 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # with none at all, browsers send "Origin: null" with our own forms
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",  # browsers keep no photos on disk either
}


@dataclass(frozen=True)
class Door:
    """The address that the page is served at, and the token, if any, that a visitor has to give."""

    host: str
    port: int
    token: str | None = None
    # What the cookie of those who gave the token says. It does not outlive the server.
    pass_word: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def knows(self, host: str) -> bool:
        """Whether a Host header names us."""
        name, _, port = host.rpartition(":") if host.rpartition(":")[2].isdigit() else (host, "", "80")
        name = name.lower()  # as browsers send it
        if port != str(self.port):
            return False
        if name in LOCAL or name == _bracketed(self.host).lower():
            return True
        # Listening everywhere, we have every address of this machine. Only names can be made to lie, addresses cannot.
        everywhere = self.host in ("0.0.0.0", "::")
        return everywhere and (_is_address(name) or name.removesuffix(".local") == _own_name())

    def admits(self, token: str) -> bool:
        return self.token is None or hmac.compare_digest(_digest(token), _digest(self.token))


def _own_name() -> str:
    return socket.gethostname().lower().removesuffix(".local")


class Guard:
    """ASGI middleware: asks at the door, and adds the headers of every answer."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self.app = app
        self.door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return None  # no WebSockets here

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refusal(Headers(scope=scope)) or await self._at_the_door(scope, receive)
        return await (answer or self.app)(scope, receive, send_with_headers)

    def _refusal(self, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if not self.door.knows(host):
            return PlainTextResponse(f"This page is not at {host!r}; open the address that hynet app printed.", 403)
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return PlainTextResponse("Another web site may not use this page.", 403)
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return PlainTextResponse("Another web site may not use this page.", 403)
        return None

    async def _at_the_door(self, scope: Scope, receive: Receive) -> Response | None:
        """None: come in."""
        if self.door.token is None:
            return None
        told = cookie_parser(Headers(scope=scope).get("cookie", "")).get(COOKIE, "")
        inside = hmac.compare_digest(_digest(told), _digest(self.door.pass_word))
        if scope["path"] == "/enter" and scope["method"] == "POST":
            async with Request(scope, receive).form(max_files=0, max_fields=1) as form:
                return self._entered(str(form.get("token", "")))
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if scope["path"] == "/" and given:
            return self._entered(given[0])  # the token leaves the address, which others may see over a shoulder
        return None if inside else _please_enter("")

    def _entered(self, token: str) -> Response:
        if not self.door.admits(token):
            return _please_enter("That is not the token.")
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            COOKIE, self.door.pass_word, httponly=True, samesite="lax"
        )  # strict: a link in a mail would not work
        return answer


def address(door: Door) -> str:
    """Return the URL to type into a browser; with the token, which the page then takes out of sight."""
    host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(door.host, door.host)
    query = f"?{urlencode({'token': door.token})}" if door.token else ""
    return f"http://{_bracketed(host)}:{door.port}/{query}"


def _please_enter(problem: str) -> HTMLResponse:
    body = f"""<main class="entrance"><h1>hynet</h1>
<p>This page asks for the token that whoever runs <code>hynet app</code> has chosen.</p>
<p class="bad" role="alert">{pages.escape(problem)}</p>
<form method="post" action="/enter"><input name="token" type="password" aria-label="token" autofocus required>
<button>Enter</button></form></main>"""
    answer = HTMLResponse(pages.page("hynet", body), 401)
    # This page carries its style inside, as our pages in files do.
    answer.headers["content-security-policy"] = (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )
    return answer


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _digest(text: str) -> bytes:
    """Hash a token to a fixed length, so that comparing takes the same time for every guess."""
    return hashlib.sha256(text.encode()).digest()
