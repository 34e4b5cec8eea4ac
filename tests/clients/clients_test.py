"""Runs one consumer and one producer of docs/clients against a standalone platform.

Usage: clients_test.py PAIR    (a key of PAIRS)

The programs run in a copy of the folders that they need, as in a user's checkout. The consumer must receive every
event, and every token must be back in the end: those of the schedule and that of the one-off event.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from processes import Child, Standalone, await_true

ROOT = pathlib.Path(__file__).absolute().parents[2]  # of the runfiles
PYTHON = "/usr/bin/python3"  # Debian's, which has grpcio
NODE = "/usr/bin/node"

# Commands in docs/clients, and the schedule that the producer makes.
PAIRS = {
    "python_http": ([PYTHON, "python/consumer.py"], [PYTHON, "python/producer.py"], "python-pulse"),
    "python_grpc": ([PYTHON, "python/grpc_consumer.py"], [PYTHON, "python/producer.py"], "python-pulse"),
    "node": ([NODE, "node/consumer.js"], [NODE, "node/producer.js"], "node-pulse"),
    "shell_curl": (["bash", "shell/consumer.sh"], ["bash", "shell/producer.sh"], "shell-pulse"),
    "shell_buf": ([PYTHON, "python/grpc_consumer.py"], ["bash", "shell/grpc_producer.sh"], "buf-pulse"),
    "cpp": (["cpp/consumer"], ["cpp/producer"], "cpp-pulse"),
}
ONE_OFF = {"kind": "one-off"}
EVENTS = [{"kind": "batch", "number": number} for number in range(3)]
PULSE = {"kind": "pulse"}


def copy_tree(folder):
    """docs/clients and the protos below `folder`. Returns its docs/clients."""
    clients = folder / "docs/clients"
    ignored = shutil.ignore_patterns("node_modules", "_objs", "*.runfiles*")
    shutil.copytree(ROOT / "docs/clients", clients, ignore=ignored)
    shutil.copytree(ROOT / "proto", folder / "proto")
    shutil.copytree(ROOT / "third_party", folder / "third_party")
    for packages in (ROOT / "docs/clients").glob("*/node_modules"):
        (clients / packages.relative_to(ROOT / "docs/clients")).symlink_to(packages)
    return clients


def check_packages(clients, pair):
    needed = {"node": "node/node_modules/@grpc/grpc-js", "shell_buf": "shell/node_modules/.bin/buf"}.get(pair)
    if needed and not (clients / needed).exists():
        sys.exit(f"docs/clients/{needed} is missing: tools/setup installs it")


def await_events(consumer):
    """Reads the consumer's output until it has received every event, and given back the tokens of both kinds."""
    missing = EVENTS + [PULSE, ONE_OFF]
    kinds = {}  # of events under the policy, by id
    to_return = {"pulse", "one-off"}
    while missing or to_return:
        line = consumer.next_line()
        if line is None:
            raise AssertionError(f"the consumer ended before it had received {missing}")
        word, _, rest = line.partition(" ")
        if word == "received":
            head, _, payload = rest.partition(": ")
            payload = json.loads(payload)
            if payload in missing:
                missing.remove(payload)
            if payload in (PULSE, ONE_OFF):
                kinds[head.split()[0]] = payload["kind"]
        elif line.startswith("token back "):
            event_id, status = rest.removeprefix("back ").split(": ", 1)
            if event_id not in kinds or not any(good in status for good in ("DONE", "STORED")):
                raise AssertionError(f"not the token of an event that was received: {line}")
            to_return.discard(kinds[event_id])


def completed_run(platform, schedule):
    runs = platform.get(f"schedules/{schedule}/runs").get("runs", [])
    return any(run["state"] == "COMPLETED" and run.get("succeededCount") == "1" for run in runs)


def all_tokens_back(platform):
    usage = platform.get("policies/two-at-once:usage")
    return int(usage["grantedCount"]) == int(usage.get("releasedCount", 0)) and int(usage.get("heldCount", 0)) == 0


def main():
    pair = sys.argv[1]
    consumer_command, producer_command, schedule = PAIRS[pair]
    folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
    clients = copy_tree(folder)
    check_packages(clients, pair)
    if PYTHON in consumer_command:
        subprocess.run(["sh", "python/make_stubs.sh"], cwd=clients, check=True)

    running = [platform := Standalone(ROOT / "services/standalone/standalone", folder)]

    def start(name, command, argument):
        program = command[:-1] + [clients / command[-1], argument]
        running.append(child := Child(name, program, cwd=folder, env=platform.environment))
        return child

    try:
        consumer = start("consumer", consumer_command, "0")
        target = consumer.await_line("listening ")
        producer = start("producer", producer_command, target)
        producer.await_line("press Enter")
        await_events(consumer)
        # The run succeeds only if its token is back.
        await_true("a completed run", lambda: completed_run(platform, schedule))
        producer.press_enter()
        assert producer.wait() == 0, "the producer failed"
        listed = f"tenants/default/schedules/{schedule}"
        before = producer.lines[:next(i for i, line in enumerate(producer.lines) if line.startswith("press Enter"))]
        assert sum(listed in line for line in before) >= 2, "the producer must create the schedule and list it"
        assert platform.status(f"/v1/{listed}") == 404, "the producer must delete the schedule"
        await_true("the return of all tokens", lambda: all_tokens_back(platform))
    finally:
        for child in reversed(running):
            child.end()


if __name__ == "__main__":
    main()
