"""The web page at /: its files, and the headers that keep it from loading or running anything else.

The page is plain HTML, CSS and JavaScript in `page/`. It asks the server for `/models`, and sends
requests as any other client. Its policy forbids scripts and styles inside the HTML, so that model
output that reached the page as HTML could not run.
"""

import pathlib

from starlette.responses import Response

_TYPES = {
    "index.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

#: Headers of the files of the page.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def page_responses() -> dict[str, Response]:
    """Returns the answer for each path of the page; the page itself is at /."""
    folder = pathlib.Path(__file__).with_name("page")
    answers = {}
    for name, kind in _TYPES.items():
        path = "/" if name == "index.html" else f"/{name}"
        headers = {**HEADERS, "Content-Type": kind}
        answers[path] = Response((folder / name).read_bytes(), headers=headers)
    return answers
