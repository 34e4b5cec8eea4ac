#!/usr/bin/python3
"""Makes a throttled schedule, a one-off event and a batch of events, lists the schedules, and deletes the schedule.

Usage: producer.py [TARGET]
TARGET receives the events: an HTTP URI (default http://127.0.0.1:8080/) or host:port of a gRPC consumer.
"""
import datetime
import json
import os
import sys
import uuid

import grpc

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "stubs"))
from escapement.v1 import event_service_pb2 as events_pb
from escapement.v1 import event_service_pb2_grpc as events_grpc
from escapement.v1 import policy_service_pb2 as policies_pb
from escapement.v1 import policy_service_pb2_grpc as policies_grpc
from escapement.v1 import resources_pb2 as resources
from escapement.v1 import schedule_service_pb2 as schedules_pb
from escapement.v1 import schedule_service_pb2_grpc as schedules_grpc

PARENT = "tenants/default"
CALL = {"timeout": 10, "wait_for_ready": True}


def target_of(uri):
    if uri.startswith("http"):
        return resources.Target(http=resources.HttpTarget(uri=uri))
    return resources.Target(grpc=resources.GrpcTarget(uri=uri))


def event_in(seconds, target, **payload):
    event = resources.Event(target=target, payload=json.dumps(payload).encode())
    event.due_time.FromDatetime(datetime.datetime.utcnow() + datetime.timedelta(seconds=seconds))
    return event


def main():
    target = target_of(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080/")
    channel = grpc.insecure_channel(os.environ.get("ESCAPEMENT_SERVER", "127.0.0.1:7410"))
    policies = policies_grpc.PolicyServiceStub(channel)
    schedules = schedules_grpc.ScheduleServiceStub(channel)
    events = events_grpc.EventServiceStub(channel)

    # A throttling policy: at most two of all its events are with the consumer at once.
    try:
        policies.CreatePolicy(policies_pb.CreatePolicyRequest(
            parent=PARENT, policy_id="two-at-once", policy=resources.ThrottlePolicy(max_concurrent=2)), **CALL)
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.ALREADY_EXISTS:
            raise

    schedule = schedules.CreateSchedule(schedules_pb.CreateScheduleRequest(
        parent=PARENT, schedule_id="python-pulse",
        schedule=resources.Schedule(
            cron="*/2 * * * * *", time_zone="Europe/Berlin", target=target, payload=b'{"kind": "pulse"}',
            policy=f"{PARENT}/policies/two-at-once")), **CALL)
    print(f"created {schedule.name}, next at {schedule.next_time.ToJsonString()}")

    # With a request_id the call can be repeated after an error and creates the event only once.
    one_off = event_in(1, target, kind="one-off")
    one_off.policy = "two-at-once"
    event = events.CreateEvent(events_pb.CreateEventRequest(
        parent=PARENT, request_id=str(uuid.uuid4()), event=one_off), **CALL)
    print(f"created {event.name}")

    # A batch creates all its events or none.
    batch = events.BatchCreateEvents(events_pb.BatchCreateEventsRequest(
        parent=PARENT, request_id=str(uuid.uuid4()),
        requests=[events_pb.CreateEventRequest(event=event_in(1, target, kind="batch", number=i)) for i in range(3)],
    ), **CALL)
    print(f"created {len(batch.events)} events")

    page_token = None
    while page_token != "":
        page = schedules.ListSchedules(schedules_pb.ListSchedulesRequest(parent=PARENT, page_token=page_token), **CALL)
        for listed in page.schedules:
            print(f"listed {listed.name} {resources.Schedule.State.Name(listed.state)}")
        page_token = page.next_page_token

    print("press Enter to delete the schedule", flush=True)
    sys.stdin.readline()
    schedules.DeleteSchedule(schedules_pb.DeleteScheduleRequest(name=schedule.name), **CALL)
    print(f"deleted {schedule.name}")


if __name__ == "__main__":
    main()
