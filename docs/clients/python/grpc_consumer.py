#!/usr/bin/python3
"""Receives events over gRPC (escapement.v1.TriggerReceiver), works on them, and gives their tokens back.

Usage: grpc_consumer.py [PORT]    (default 8080; 0 chooses a free port)
"""
import concurrent.futures
import os
import queue
import sys

import grpc

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "stubs"))
from escapement.v1 import token_service_pb2 as tokens_pb
from escapement.v1 import token_service_pb2_grpc as tokens_grpc
from escapement.v1 import trigger_receiver_service_pb2 as receiver_pb
from escapement.v1 import trigger_receiver_service_pb2_grpc as receiver_grpc

jobs = queue.SimpleQueue()


class Receiver(receiver_grpc.TriggerReceiverServicer):
    def Deliver(self, deliveries, context):
        """Each handler of the platform keeps one stream open, which needs a thread of this server."""
        for delivery in deliveries:
            jobs.put(delivery)
            # The event counts as delivered. A program that must not lose it stores it before this answer.
            yield receiver_pb.DeliveryResult(
                delivery_number=delivery.delivery_number, status=receiver_pb.DeliveryResult.ACCEPTED)


def work():
    channel = grpc.insecure_channel(os.environ.get("ESCAPEMENT_SERVER", "127.0.0.1:7410"))
    tokens = tokens_grpc.TokenServiceStub(channel)
    done = set()
    while True:
        delivery = jobs.get()
        # After a fault an event may arrive twice, with the same id. A real service keeps the ids in its database.
        if delivery.event_id not in done:
            time = delivery.nominal_time.ToJsonString()
            print(f"received {delivery.event_id} of {time}: {delivery.payload.decode()}", flush=True)
            done.add(delivery.event_id)
        # Only events with a throttling policy hold a token. Until it is back, the next event may wait.
        if delivery.token:
            completion = tokens_pb.TokenCompletion(
                token=delivery.token, outcome=tokens_pb.TokenCompletion.SUCCEEDED)
            answer = tokens.CompleteTokens(
                tokens_pb.CompleteTokensRequest(completions=[completion]), timeout=10, wait_for_ready=True)
            status = tokens_pb.TokenResult.Status.Name(answer.results[0].status)
            print(f"token back {delivery.event_id}: {status}", flush=True)


def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=16))
    receiver_grpc.add_TriggerReceiverServicer_to_server(Receiver(), server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    print(f"listening 127.0.0.1:{port}", flush=True)
    work()


if __name__ == "__main__":
    main()
