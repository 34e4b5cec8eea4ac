#!/usr/bin/env python3
"""Upgrades a platform of real processes from a former build to the present one, in both orders.

  upgrade_main.py FORMER PRESENT waits|works

FORMER and PRESENT are folders of built programs; tools/dev upgrade COMMIT gives them. Two stores over a PostgreSQL, a
schedule that fires every second, and a receiver that sees whether an instant is missing. Events also wait under policies
meanwhile: some while their policy is paused, some for their place in a window. The last word says what services of the
present build do while a former store leads: they wait for it, or it speaks enough for them.

services first: the present services start beside the former ones, then the stores follow, the leader last; then the leader is
                a former one again, and a present one again.
store first:    the former services go on with present stores, then the present services replace them.

Exits 0 if all was as docs/operations/upgrade.md says.
"""
import contextlib
import datetime
import http.server
import json
import os
import shutil
import sys
import tempfile
import threading
import urllib.error
import urllib.request

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(_HERE, "..", "..", "monitoring"), os.path.join(_HERE, "..", "..", "clients")]
from platform_processes import Process  # noqa: E402
from processes import await_true  # noqa: E402

SERVICES = ("master", "emitter", "token_manager", "handler")
STORES = ("store", "store.2")
WAITING = 30  # events under each policy
SENTENCE = "upgrade the store first"
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def request(address, path, body=None):
    """Status and text of an answer; status 0 if there is none."""
    data = None if body is None else json.dumps(body).encode()
    call = urllib.request.Request(f"http://{address}{path}", data, {"Content-Type": "application/json"} if data else {})
    try:
        with _OPENER.open(call, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


class Receiver:
    """Keeps the instants of the events that arrive, and by path the ids of those that wait under policies."""

    def __init__(self):
        self.instants, self.ids = set(), {}
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/":
                    receiver.instants.add(int(datetime.datetime.fromisoformat(self.headers["ce-time"]).timestamp()))
                else:
                    receiver.ids.setdefault(self.path, set()).add(self.headers["ce-id"])
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = "127.0.0.1:%d" % self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def end(self):
        self._server.shutdown()
        self._server.server_close()

    def await_more(self, count=3):
        """Until so many further instants have fired."""
        before = len(self.instants)
        await_true(f"{count} more events", lambda: len(self.instants) >= before + count)

    def missing(self):
        return sorted(set(range(min(self.instants), max(self.instants))) - self.instants)


class Installation:
    """Two stores and the services, of whatever builds."""

    def __init__(self, builds, folder):
        self._builds, self._folder = builds, folder
        self._ends = contextlib.ExitStack()
        self.processes, self.http, self._grpc = {}, {}, {}
        self.receiver = Receiver()
        self._ends.callback(self.receiver.end)

    def end(self):
        self._ends.close()

    def start_stores(self):
        """Former ones. Their ports are known only when they run; from the second start on they advertise them."""
        postgres = Process("postgres", [f"{self._builds['present']}/tests/fixtures/postgres/postgres_main"], self._folder)
        self._ends.callback(postgres.end)
        self._ends.callback(postgres.wait)  # it ends with its stdin
        self._url = postgres.await_line("postgres ")
        for name in STORES:
            self.start_store(name, "former")
            self.processes[name].kill()
        self.start_store("store", "former")
        self.await_ready("store")
        self.start_store("store.2", "former")
        self.await_place("store.2")

    def start_store(self, name, build):
        grpc = self._grpc.get(name, "127.0.0.1:0")
        self._start(name, build, ["--advertise=" + grpc, f"--store_id={name}", f"--replicate_through={self._url}",
                                  f"--data_dir={self._folder}/data.{name}"])

    def replace_store(self, name, build):
        """As a StatefulSet does: the next store follows once this one could lead."""
        self.processes[name].end()
        self.start_store(name, build)
        self.await_place(name)

    def await_place(self, name):
        await_true(f"{name} in place", lambda: request(self.http[name], "/replicaz")[0] == 200)

    def start_services(self, build):
        for service in SERVICES:
            flags = ["--store=" + ",".join(self._grpc[store] for store in STORES)]
            if service in ("master", "handler"):
                flags.append(f"--secret_keys_file={self._folder}/secret.keys")
            self._start(f"{service}.{build}", build, flags)

    def end_services(self, build):
        for service in SERVICES:
            self.processes[f"{service}.{build}"].end()

    def await_ready(self, *names):
        for name in names:
            await_true(f"{name} ready", lambda name=name: self.readiness(name)[0] == 200)

    def await_services(self, build):
        self.await_ready(*(f"{service}.{build}" for service in SERVICES))

    def await_waiting(self, build):
        for service in SERVICES:
            name = f"{service}.{build}"

            def waits(name=name):
                status, text = self.readiness(name)
                return status == 503 and SENTENCE in text
            await_true(f"{name} waits for the store", waits)

    def expect_waiting(self, build):
        for service in SERVICES:
            status, text = self.readiness(f"{service}.{build}")
            if status != 503 or SENTENCE not in text:
                raise AssertionError(f"{service} of the {build} build answers {status} {text!r}")

    def readiness(self, name):
        return request(self.http[name], "/readyz")

    def call(self, build, path, body):
        status, text = request(self.http[f"master.{build}"], "/v1/tenants/default/" + path, body)
        if status != 200:
            raise AssertionError(f"{path} was answered {status} {text}")

    def create_schedule(self, build):
        self._create(build, "seconds", "/", {"cron": "* * * * * *"})
        self.receiver.await_more()
        for policy in ("held", "open"):
            self.call(build, f"policies?policyId={policy}", {"maxConcurrent": 5})
        self.call(build, "policies/held:pause", {})
        for name, further in (("held", {}), ("open", {"window": {"duration": "60s", "pacing": "EVEN"}})):
            self._create(build, name, f"/{name}", {
                "cron": "0 0 1 1 *", "eventCount": WAITING, "policy": name, "completion": "ON_DELIVERY", **further})
            self.call(build, f"schedules/{name}:trigger", {})
        await_true("the first of a window", lambda: self.receiver.ids.get("/open"))

    def await_waiting_events(self, build):
        """Those of the paused policy go once it is resumed, those of the window by its end."""
        if "/held" in self.receiver.ids:
            raise AssertionError("an event of a paused policy has arrived")
        self.call(build, "policies/held:resume", {})
        for path in ("/held", "/open"):
            await_true(f"all events of {path}", lambda path=path: len(self.receiver.ids.get(path, ())) == WAITING)

    def _create(self, build, name, path, schedule):
        self.call(build, f"schedules?scheduleId={name}", {
            "payloadText": "{}", "target": {"http": {"uri": f"http://{self.receiver.address}{path}"}}, **schedule})

    def _start(self, name, build, flags):
        service = name.partition(".")[0]
        process = Process(name, [f"{self._builds[build]}/services/{service}/{service}",
                                 "--listen=" + self._grpc.get(name, "127.0.0.1:0"),
                                 "--http_listen=" + self.http.get(name, "127.0.0.1:0"), *flags], self._folder)
        self._ends.callback(process.end)
        words = dict(word.split("=", 1) for word in process.await_line("listening ").split() if "=" in word)
        self._grpc[name], self.http[name] = words["grpc"], words["http"]
        self.processes[name] = process


def say(text):
    print(text, flush=True)


def services_first(platform, waits):
    platform.start_services("present")
    if waits:
        platform.await_waiting("present")
        platform.receiver.await_more()
        say("the present services wait, and the former ones go on")
    else:
        platform.await_services("present")
    platform.replace_store("store.2", "present")
    platform.receiver.await_more()
    if waits:
        platform.expect_waiting("present")
        say("one store is a present one and follows: the services wait for the leader")
    platform.replace_store("store", "present")
    platform.await_services("present")
    say("a present store leads: the present services are ready")
    platform.end_services("former")
    platform.receiver.await_more()
    # Store 2 leads now. Store 1 becomes a former one, and then leads.
    platform.replace_store("store", "former")
    platform.processes["store.2"].end()
    if waits:
        platform.await_waiting("present")
        say("a former store leads again: the services wait")
    platform.await_ready("store")
    platform.start_store("store.2", "present")
    platform.await_place("store.2")
    platform.replace_store("store", "present")
    platform.await_services("present")
    platform.receiver.await_more()
    say("a present store leads again: events arrive")


def store_first(platform, _):
    platform.replace_store("store.2", "present")
    platform.receiver.await_more()
    platform.replace_store("store", "present")
    platform.receiver.await_more()
    platform.await_services("former")
    say("present stores, former services: events arrive")
    platform.start_services("present")
    platform.await_services("present")
    platform.end_services("former")
    platform.receiver.await_more()


def main():
    if len(sys.argv) != 4 or sys.argv[3] not in ("waits", "works"):
        sys.exit(__doc__)
    builds = {"former": sys.argv[1], "present": sys.argv[2]}
    for order in (services_first, store_first):
        folder = tempfile.mkdtemp(prefix="escapement-upgrade-")
        with open(f"{folder}/secret.keys", "w", encoding="utf-8") as file:
            file.write("test: c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I=\n")
        say(f"== {order.__name__.replace('_', ' ')}")
        platform = Installation(builds, folder)
        try:
            platform.start_stores()
            platform.start_services("former")
            platform.await_services("former")
            platform.create_schedule("former")
            order(platform, sys.argv[3] == "waits")
            platform.await_waiting_events("present")
            if missing := platform.receiver.missing():
                raise AssertionError(f"instants without an event: {missing}")
            say(f"{len(platform.receiver.instants)} instants, none is missing")
        except AssertionError as error:
            sys.exit(f"upgrade: {error}; the logs are in {folder}")
        finally:
            platform.end()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
