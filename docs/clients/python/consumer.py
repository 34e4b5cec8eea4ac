#!/usr/bin/python3
"""Receives events over HTTP, works on them one after another, and gives their tokens back.

Usage: consumer.py [PORT]    (default 8080; 0 chooses a free port)
"""
import http.server
import os
import queue
import sys
import threading

import grpc

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "stubs"))
from escapement.v1 import token_service_pb2 as tokens_pb
from escapement.v1 import token_service_pb2_grpc as tokens_grpc

jobs = queue.SimpleQueue()


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps the connection for the next event

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        jobs.put((self.headers["ce-id"], self.headers["ce-time"], body, self.headers["Escapement-Token"]))
        # The event counts as delivered. A program that must not lose it stores it before this answer.
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def work():
    channel = grpc.insecure_channel(os.environ.get("ESCAPEMENT_SERVER", "127.0.0.1:7410"))
    tokens = tokens_grpc.TokenServiceStub(channel)
    done = set()
    while True:
        event_id, time, body, token = jobs.get()
        # After a fault an event may arrive twice, with the same id. A real service keeps the ids in its database.
        if event_id not in done:
            print(f"received {event_id} of {time}: {body.decode()}", flush=True)
            done.add(event_id)
        # Only events with a throttling policy hold a token. Until it is back, the next event may wait.
        if token:
            completion = tokens_pb.TokenCompletion(token=token, outcome=tokens_pb.TokenCompletion.SUCCEEDED)
            answer = tokens.CompleteTokens(
                tokens_pb.CompleteTokensRequest(completions=[completion]), timeout=10, wait_for_ready=True)
            status = tokens_pb.TokenResult.Status.Name(answer.results[0].status)
            print(f"token back {event_id}: {status}", flush=True)


def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening http://127.0.0.1:{server.server_port}/", flush=True)
    work()


if __name__ == "__main__":
    main()
