"""The system's Chromium, driven by Playwright, as fixtures for browser tests.

A test module imports the fixtures `chromium` and `page`. Nothing is downloaded: the browser is that
of the system, in Debian the package `chromium`.
"""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

#: Milliseconds after which a page that does not answer ends a test. It is no performance limit.
PATIENCE = 240_000

expect.set_options(timeout=PATIENCE)

_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # TensorBoard's projector draws with WebGL, which needs software rendering without a GPU.
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
)


def find_chromium() -> str:
    """Returns the path of Chromium, which the system must have."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise RuntimeError(
            "Browser tests need chromium on the PATH. Install Debian's package: "
            "apt-get install chromium"
        )
    return path


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for a test module."""
    with sync_playwright() as playwright:
        # Without a sandbox, which Chromium cannot have as root, as in containers.
        browser = playwright.chromium.launch(
            executable_path=find_chromium(),
            args=list(_FLAGS),
            chromium_sandbox=False,
            timeout=PATIENCE,
        )
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A new page without cookies or storage."""
    context = chromium.new_context(viewport={"width": 1600, "height": 1200})
    context.set_default_timeout(PATIENCE)
    yield context.new_page()
    context.close()
