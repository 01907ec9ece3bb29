"""Local receivers of pages: an HTTP server and an SMTP server that record what reached them, and may refuse."""

import json
import socketserver
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """What an HTTP receiver got; ``answers`` are the next replies' statuses, 200 when there are no more."""

    def __init__(self, url):
        self.url = url
        self.got = []  # (path, headers, body)
        self.tried = 0
        self.answers = []

    @property
    def bodies(self):
        return [body for _, _, body in self.got]


@contextmanager
def http_receiver():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.tried += 1
            status, headers = (receiver.answers.pop(0), {}) if receiver.answers else (200, {})
            if isinstance(status, tuple):
                status, headers = status
            if status < 300:
                receiver.got.append((self.path, dict(self.headers), json.loads(body)))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def smtp_receiver():
    """Enough of RFC 5321 for smtplib: yields (port, list of (sender, recipients, message))."""
    got = []

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line):
            self.wfile.write(line.encode() + b"\r\n")

        def handle(self):
            self.say("220 test")
            sender, to = "", []
            while line := self.rfile.readline().decode().strip():
                verb = line.upper()
                if verb.startswith(("EHLO", "HELO")):
                    self.say("250 test")
                elif verb.startswith("MAIL FROM:"):
                    sender, to = line[10:].split()[0].strip("<>"), []
                    self.say("250 ok")
                elif verb.startswith("RCPT TO:"):
                    to.append(line[8:].strip("<>"))
                    self.say("250 ok")
                elif verb == "DATA":
                    self.say("354 go on")
                    lines = []
                    while (text := self.rfile.readline().rstrip(b"\r\n")) != b".":
                        lines.append(text[1:] if text.startswith(b"..") else text)
                    got.append((sender, to, b"\n".join(lines)))
                    self.say("250 taken")
                elif verb == "QUIT":
                    self.say("221 bye")
                    return
                else:
                    self.say("502 what")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server.server_address[1], got
        server.shutdown()
