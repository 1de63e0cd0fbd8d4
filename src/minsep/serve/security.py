"""Who may talk to the server: this machine, by the names it knows, with the token of the link that was printed."""

import re
import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minsep.show.templates import render

# Scripts and styles come from files of the package alone. Plotly writes its rules into a style sheet of the page, and
# sets the style of elements by script: neither needs inline styles to be allowed.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# A report holds its own script. In a sandbox it has no origin: it can neither call this server nor read its pages.
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads allow-modals; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
MOST_BYTES = 16_384  # of a request's body
_SAFE = ("GET", "HEAD")
_OPEN = ("/assets/",)
_LENGTH = re.compile("[0-9]{1,20}")


class RequestFilter:
    """Lets requests pass that name this server, come from its own pages, and know the token; and adds the headers.

    Args:
        app: The application that answers the requests that pass.
        hosts: The names and ports that the server answers to, such as 127.0.0.1:8765. Another name may be an attacker's
            that points here.
        token: The secret of the link.
        cookie: The name of the cookie that holds the token once the link was opened.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str], token: str, cookie: str) -> None:
        self._app, self._hosts, self._token, self._cookie = app, frozenset(hosts), token, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refusal(scope)
        await (refused or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("This server answers to the address that it printed, and to no other.", 421)
        origin = headers.get("origin")
        scheme, _, host = (origin or "").lower().partition("://")
        if origin is not None and not (scheme in ("http", "https") and host in self._hosts):
            return PlainTextResponse("Requests of other pages are refused.", 403)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _navigates(scope, headers):
            return PlainTextResponse("Requests of other pages are refused.", 403)
        length = headers.get("content-length", "0")
        if not _LENGTH.fullmatch(length) or int(length) > MOST_BYTES:
            return PlainTextResponse(f"A request has at most {MOST_BYTES:,} bytes.", 413)
        if scope["path"].startswith(_OPEN):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["path"] == "/" and scope["method"] == "GET" and "token" in dict(query):
            return self._take_token(query)
        if self._knows_token(headers):
            # A cookie goes with every request of a browser; only pages of this server send their own origin.
            if scope["method"] not in _SAFE and origin is None and "authorization" not in headers:
                return PlainTextResponse("The request has no Origin.", 403)
            return None
        return self._ask(scope, query)

    def _knows_token(self, headers: Headers) -> bool:
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if not given:
            try:
                morsel = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
            except CookieError:
                return False
            given = morsel.value if morsel is not None else ""
        return self._is_token(given)

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())

    def _take_token(self, query: list[tuple[str, str]]) -> Response:
        """Put the token into a cookie, and take it out of the address: links to plans must not hold it."""
        rest = [(name, value) for name, value in query if name != "token"]
        if not self._is_token(dict(query)["token"]):
            return PlainTextResponse("This is not the token of this server: open the link that it printed last.", 401)
        response = RedirectResponse("/" + (f"?{urlencode(rest)}" if rest else ""), 303)
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
        return response

    def _ask(self, scope: Scope, query: list[tuple[str, str]]) -> Response:
        if scope["path"] != "/" or scope["method"] != "GET":
            return PlainTextResponse("The token is missing: open the link that `minsep serve` printed.", 401)
        again = "/" + (f"?{urlencode(query)}" if query else "")
        return HTMLResponse(render("token.html", query=query, again=again), 401)


def _navigates(scope: Scope, headers: Headers) -> bool:
    """Whether a person follows a link to the page itself: harmless, as it only reads."""
    return (
        scope["method"] == "GET"
        and scope["path"] == "/"
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )


def new_token() -> str:
    """Return a secret for one server."""
    return secrets.token_urlsafe(24)
