"""A server in a thread of the test process, and a client that sends anything."""

import asyncio
import contextlib
import gzip
import http.client
import json
import socket
import threading

from keras_transformer.serving import Server, ServerSettings


class Answer:
    """Status, headers and body of an HTTP answer."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The text of an error, which must be the only content."""
        (key,) = self.json
        assert key == "error"
        assert self.headers["Content-Type"] == "application/json"
        return self.json["error"]


class RunningServer:
    """A server whose event loop runs in a thread."""

    def __init__(self, sources, **settings):
        settings = ServerSettings(**{"port": 0, "grpc_port": 0, "poll_seconds": 0, **settings})
        self.server = Server(sources, settings)
        self.loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._error = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        async def main():
            try:
                async with self.server.running():
                    self._started.set()
                    await self.server.stopping.wait()
            except BaseException as error:
                self._error = error
            finally:
                self._started.set()

        self.loop.run_until_complete(main())

    def __enter__(self):
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            raise self._error
        return self

    def __exit__(self, *_):
        self.begin_stop()
        self.wait()

    def begin_stop(self):
        self.loop.call_soon_threadsafe(self.server.stop)

    def wait(self):
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error

    def run(self, coroutine):
        """Returns the result of a coroutine in the server's event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def update(self):
        """Makes the server look for new versions."""
        self.run(self.server.manager.watch(0))

    def call(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            return Answer(connection.getresponse())

    def get(self, path, **headers):
        return self.call("GET", path, headers=headers)

    def post(self, path, body, **headers):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        return self.call("POST", path, body, headers)

    def predict(self, body, model="small", **headers):
        return self.post(f"/v1/models/{model}:predict", body, **headers)

    def post_gzip(self, path, body):
        return self.call("POST", path, gzip.compress(body), {"Content-Encoding": "gzip"})

    def connect(self):
        """Returns a plain socket."""
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=60)
