"""A chat endpoint on this machine that answers as it is told to, and keeps what it was asked."""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def answer(text, *, finish_reason="stop", tokens=10):
    """A chat completion as such endpoints send it."""
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "judge",
        "choices": [
            {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "content": text}},
        ],
        "usage": None if tokens is None else {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": tokens},
    }


class Server(ThreadingHTTPServer):
    """`replies` are sent in order, the last one for ever: (status, body, headers) or a function of the request."""

    daemon_threads = True

    def __init__(self, replies):
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies = list(replies)
        self.asked = []
        self.lock = threading.Lock()
        self.now = self.most = 0
        self.delay = 0.0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request, client_address):
        """A client that did not wait is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send(200, {"object": "list", "data": [{"id": "judge", "object": "model", "created": 1, "owned_by": "x"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server = self.server
        with server.lock:
            server.asked.append((body, {k.lower(): v for k, v in self.headers.items()}, time.monotonic()))
            reply = server.replies.pop(0) if len(server.replies) > 1 else server.replies[0]
            server.now += 1
            server.most = max(server.most, server.now)
        time.sleep(server.delay)
        status, sent, *headers = reply(body) if callable(reply) else reply
        with server.lock:
            server.now -= 1
        self.send(status, sent, *headers)

    def send(self, status, body, headers=None):
        text = body if isinstance(body, str) else json.dumps(body)
        data = text.encode()
        self.send_response(status)
        kind = "text/html" if isinstance(body, str) else "application/json"
        for name, value in {"content-type": kind, "content-length": len(data), **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)


@contextlib.contextmanager
def endpoint(*replies):
    server = Server(replies or [(200, answer("Score: 1"))])
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
