#!/usr/bin/env python3
"""Prints one line for each HTTP request: the event's id, its token or "-", and its payload.

Usage: receiver.py PORT
"""
import http.server
import sys


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps the connection for the next event

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        payload = " ".join(body.decode().splitlines())
        # One write, so that lines of several threads do not mix.
        sys.stdout.write(f"{self.headers['ce-id']} {self.headers.get('Escapement-Token', '-')} {payload}\n")
        sys.stdout.flush()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
print(f"listening http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
