"""Debian's chromium without a window, driven over a pipe: no package is needed for it."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time

#: A browser or a page that hangs is ended after so many seconds; nothing is judged by the clock.
PATIENCE = 240

# The pipe must have the numbers 3 and 4 in the browser.
_LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)

# Elements by a CSS selector, wherever they hide: in shadow roots, and in frames of the same server.
_SCRIPT = """
function elements(selector, root = document) {
  const found = [...root.querySelectorAll(selector)];
  for (const each of root.querySelectorAll('*')) {
    if (each.shadowRoot) found.push(...elements(selector, each.shadowRoot));
    if (each.tagName === 'IFRAME' && each.contentDocument)
      found.push(...elements(selector, each.contentDocument));
  }
  return found;
}
function texts(selector) { return elements(selector).map(each => each.textContent.trim()); }
function isSeen(each) {
  const box = each.getBoundingClientRect();
  return box.width * box.height > 0;
}
"""


class Chromium:
    """A browser with one page, for a `with` statement.

    Args:
        profile: a directory for what the browser keeps.
    """

    def __init__(self, profile):
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        if path is None:
            raise RuntimeError(
                "This test looks at TensorBoard in a browser, and there is no chromium on the "
                "PATH. Install Debian's package: apt-get install chromium"
            )
        there, self._commands = _pipe()
        self._answers, back = _pipe()
        self._unread = b""
        self._number = 0
        options = [
            "--headless=new",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            "--window-size=1600,1200",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-dev-shm-usage",
            # The projector draws with WebGL, for which a machine without a GPU needs software.
            "--use-angle=swiftshader",
            "--enable-unsafe-swiftshader",
        ]
        if os.geteuid() == 0:
            options.append("--no-sandbox")  # there is none for root
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(there), str(back), path, *options, "about:blank"],
            pass_fds=(there, back),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there)
        os.close(back)
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._session = None
        try:
            self._call("Browser.close")
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._commands)
            os.close(self._answers)

    _session = None

    def open(self, address):
        """Goes to a page, from an empty one: an address that differs in its fragment loads, too."""
        self._call("Page.navigate", url="about:blank")
        self._call("Page.navigate", url=address)

    def evaluate(self, script):
        """The value of an expression; it may use `elements`, `texts` and `isSeen` from above."""
        answer = self._call(
            "Runtime.evaluate", expression=f"{{{_SCRIPT}; {script}}}", returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, script):
        """The value of an expression as soon as it is neither false nor empty."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                value = self.evaluate(script)
            except RuntimeError as error:  # the page is not there yet
                value, last = None, error
            else:
                last = value
            if value:
                return value
            if time.monotonic() > end:
                seen = self.evaluate("document.body.innerText")
                raise RuntimeError(f"{script}: never came true; last was {last!r}; page: {seen}")
            time.sleep(0.2)

    def click(self, script):
        """Clicks on the element that an expression gives, once it is there."""
        self.wait_for(f"const found = {script}; if (found) found.click(); !!found")

    def screenshot(self, path):
        """Saves what is seen as a PNG file."""
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    def _call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                break
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _read(self):
        """The next message: they end with a zero byte each."""
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], PATIENCE)
            part = os.read(self._answers, 1 << 20) if ready else b""
            if not part:
                code = self._process.poll()
                raise RuntimeError(f"chromium does not answer (its exit code: {code}).")
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)


def _pipe():
    """Both ends of a pipe, with numbers that are far from 3 and 4."""
    ends = []
    for end in os.pipe():
        ends.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(end)
    return ends
