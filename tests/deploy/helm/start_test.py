"""Starts every program from the rendered manifests, asks the probes, and runs the pods of `helm test`.

Usage: start_test.py flags|standalone|standalone_secure|replicated|replicated_secure|replicated_secure_cells
    flags: each program reads its arguments, environment and config file, for each set of values, and ends.
"""
import base64
import concurrent.futures
import copy
import datetime
import http.client
import http.server
import json
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import psycopg2

import chart
from chart import CERTIFICATES, REPLICATED, SECURE, merged
from kubelet import DEADLINE, PROGRAMS, Cluster, Pod
from processes import Child, await_true  # kubelet names its folder

KEYS = {"secretKeys": {"existingSecret": "secret-keys"}}
SHORT = {"drainSeconds": 10}
VALUES = {
    "standalone": {"insecure": True},
    # No address of this machine is allowed: `helm test` needs none.
    "standalone_secure": merged(SECURE, KEYS, {"test": {"target": ""}, "config": {"delivery_allowed_addresses": "192.0.2.0/24"}}),
    "replicated": merged(REPLICATED, {"insecure": True, "store": {"replicas": 2}, "config": {"log_storage_replicated": True}}),
    "replicated_secure": merged(REPLICATED, SECURE, {"tls": {"existingSecret": ""}}, CERTIFICATES, KEYS),
    "replicated_secure_cells": merged(
        REPLICATED, SECURE, {"tls": {"existingSecret": ""}}, CERTIFICATES, KEYS, {"store": {"replicas": 2}},
        {name: {"replicas": 1} for name in chart.SERVICES},
        {"cells": [{"number": 7, "weight": 2, "store": {"postgresql": {"existingSecret": "database-7"}}}]}),
}
# Seconds by which an occurrence may be late while pods are replaced. A handover takes a tenth of a second; the bound leaves
# room for a loaded machine, and is less than the 3 s of silence plus 5 s of leases without a handover.
LATE_MAX = 7


class Receiver:
    """Notes each call: its path, the nominal time of the event, and when it came."""

    def __init__(self):
        self.calls = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                receiver.calls.append((self.path, self.headers.get("ce-time"), time.time()))
                self.send_response(204)
                self.end_headers()

            do_GET = do_POST = answer

            def log_message(self, *words):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def to(self, path):
        return [call for call in self.calls if call[0] == path]

    def end(self):
        self._server.shutdown()
        self._server.server_close()


class S3:
    """A bucket that a release with `values` has its backups in."""

    def __init__(self):
        self._process = Child("s3", ["/usr/bin/python3", chart.ROOT / "tests/fixtures/s3/fake_s3.py"])
        self.url = f"http://127.0.0.1:{self._process.await_line('listening ')}"
        self.values = {"backup": {"s3": {"bucket": "backups", "endpoint": self.url, "credentialsSecret": "s3-keys"}}}

    def call(self, action, **body):
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=DEADLINE)
        connection.request("POST", "/", json.dumps({"bucket": "backups", **body}), {"X-Amz-Target": f"Fake.{action}"})
        return json.loads(connection.getresponse().read())

    def end(self):
        self._process.end()


class Postgres:
    def __init__(self):
        self._process = Child("postgres", [chart.ROOT / "tests/fixtures/postgres/postgres_main"])
        self.url = self._process.await_line("postgres ")

    def with_database(self, name):
        """The URL of a new database."""
        connection = psycopg2.connect(self.url)
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        connection.close()
        return re.sub(r"///\w+", f"///{name}", self.url)

    def end(self):
        self._process.wait()  # it ends with its stdin


def openssl(*words):
    subprocess.run(["/usr/bin/openssl", *words], check=True, capture_output=True, timeout=DEADLINE)


def certificates(folder, names, hosts):
    """What cert-manager, or you, would put into the Secret; with the addresses of this machine's pods, too."""
    there = pathlib.Path(folder, "certificates")
    there.mkdir()
    (there / "names").write_text("subjectAltName=" + ",".join([f"DNS:{name}" for name in names] + [f"IP:{host}" for host in hosts]) +
                                 "\nextendedKeyUsage=serverAuth,clientAuth\n", encoding="utf-8")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", f"{there}/ca.key", "-out", f"{there}/ca.crt", "-subj", "/CN=authority", "-days", "2")
    openssl("req", *key, "-keyout", f"{there}/tls.key", "-out", f"{there}/tls.csr", "-subj", "/CN=escapement")
    openssl("x509", "-req", "-in", f"{there}/tls.csr", "-CA", f"{there}/ca.crt", "-CAkey", f"{there}/ca.key", "-CAcreateserial",
            "-out", f"{there}/tls.crt", "-days", "2", "-extfile", f"{there}/names")
    return {name: (there / name).read_text(encoding="utf-8") for name in ("tls.crt", "tls.key", "ca.crt")}


def own_secrets(folder):
    """The Secrets with keys that an operator makes."""
    path = pathlib.Path(folder, "bootstrap.key")
    subprocess.run([PROGRAMS["/usr/bin/escctl"], "admin", "bootstrap", "--key-file", path], check=True, capture_output=True,
                   timeout=DEADLINE)
    return {"first-key": {"bootstrap.key": path.read_text(encoding="utf-8")},
            "secret-keys": {"secret.keys": f"key-1: {base64.b64encode(secrets.token_bytes(32)).decode()}\n"}}


def escctl(cluster, *words):
    """Calls the public API as the test's pod does."""
    pod = next(each for each in cluster.objects if each["kind"] == "Pod")
    options = [word for word in pod["spec"]["containers"][0]["args"] if word.startswith("--server")]
    done = subprocess.run([PROGRAMS["/usr/bin/escctl"], *map(cluster.with_addresses, options), *words], env={},
                          capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Caller:
    """Calls the REST API all the time, each time a pod that the Service names."""

    def __init__(self, cluster, path):
        self.answers = []  # (status, seconds)
        self._ended = threading.Event()
        self._cluster, self._path = cluster, path
        self._service = chart.find(cluster.objects, "Service", "it-escapement")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._ended.wait(0.1):
            start = time.monotonic()
            with self._cluster.calling:
                status = self._call(self._cluster.front(self._service).address)
            self.answers.append((status, time.monotonic() - start))

    def _call(self, address):
        connection = http.client.HTTPConnection(address, 7411, timeout=DEADLINE)
        try:
            connection.request("GET", self._path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return repr(error)
        finally:
            connection.close()

    def judge(self):
        self._ended.set()
        self._thread.join()
        counts = {status: sum(1 for answer, _ in self.answers if answer == status) for status, _ in self.answers}
        slowest = max(seconds for _, seconds in self.answers)
        print(f"calls of the API: {counts}, the slowest took {slowest:.2f} s", flush=True)
        assert set(counts) == {200}, counts


def check_helm_test(cluster, values, receiver):
    """`helm test` passes if, and only if, the event of its schedule was delivered, and another store could take over."""
    pods = cluster.test_pods()
    said = cluster.run_to_end(pods.pop("it-escapement-test"))
    print(said["fires"], flush=True)
    assert "PERMANENTLY_FAILED" not in said["fires"] and "COMPLETED" in said["fires"], said
    assert bool(receiver.to("/helm-test")) == (values["test"]["target"] != ""), "the schedule did not call its target"

    def other_pods(own):
        return cluster.test_pods(chart.render(merged(values, own)))

    refused = other_pods({"test": {"target": f"{receiver.url}/refused", "timeout": "30s"}})["it-escapement-test"]
    outputs, failed = cluster.run_pod(refused)
    if values["test"]["target"] == "":
        assert failed == "fires" and "PERMANENTLY_FAILED" in outputs["fires"] and "not allowed" in outputs["fires"], outputs
    else:
        assert failed is None, outputs
    assert bool(receiver.to("/refused")) == (failed is None)
    if values.get("mode") != "replicated":
        assert not pods, pods
        return
    outputs, failed = cluster.run_pod(pods.pop("it-escapement-failover-test"))
    if values.get("config", {}).get("log_storage_replicated"):
        assert failed is None, outputs
        # Two stores run.
        outputs, failed = cluster.run_pod(other_pods({"store": {"replicas": 3}})["it-escapement-failover-test"])
        assert failed and "only 2 of 3 replicas" in outputs["failover"], outputs
    else:
        assert failed and "no synchronous standby" in outputs["failover"], outputs


def check_crash(cluster):
    """A container that is started again in its pod knows that the former one is dead."""
    for name in ("emitter", "handler", "token-manager"):
        pod = next(pod for pod in cluster.pods if pod.name == f"it-escapement-{name}-0")
        instances = pod.path_of("run") / "instance"
        before = len(instances.read_text(encoding="utf-8").splitlines())
        pod.kill()
        pod.start()
        pod.await_probe("readinessProbe")
        assert len(instances.read_text(encoding="utf-8").splitlines()) == before + 1, name


def roll_out(cluster, owner):
    """Replaces the pods of a StatefulSet or Deployment, one after the other."""
    for pod in [pod for pod in reversed(cluster.pods) if pod.owner is owner]:
        start = time.monotonic()
        new = cluster.replace(pod)
        settled = time.monotonic() + owner["spec"]["minReadySeconds"]
        await_true("minReadySeconds", lambda until=settled, pod=new: time.monotonic() > until and pod.probe("readinessProbe") == 200,
                   DEADLINE)
        print(f"{pod.name} is replaced by {new.name} after {time.monotonic() - start:.1f} s", flush=True)


def check_upgrade(cluster, receiver):
    """Replaces every pod as an upgrade does, while a schedule fires every second. Nothing may be missing."""
    escctl(cluster, "schedule", "create", "pulse", "--every=1s", f"--http={receiver.url}/pulse")
    await_true("the first event", lambda: receiver.to("/pulse"), DEADLINE)
    caller = Caller(cluster, "/v1/tenants/default/schedules/pulse")
    # In a cluster each kind of pods has a controller of its own, and all of them begin at once.
    with concurrent.futures.ThreadPoolExecutor() as controllers:
        list(controllers.map(lambda owner: roll_out(cluster, owner), cluster.owners()))
    last = len(receiver.to("/pulse"))
    await_true("events after the upgrade", lambda: len(receiver.to("/pulse")) > last + 2, DEADLINE)
    judge_pulse(receiver.to("/pulse"))
    caller.judge()


def judge_pulse(calls):
    arrivals = {}  # nominal time → arrival, both in seconds
    for _, nominal, arrived in calls:
        arrivals.setdefault(datetime.datetime.fromisoformat(nominal.replace("Z", "+00:00")).timestamp(), arrived)
    nominals = sorted(arrivals)
    gaps = [(one, other) for one, other in zip(nominals, nominals[1:]) if other - one > 1.001]
    assert not gaps, f"between these, occurrences were not delivered: {gaps}"
    lateness = [arrivals[nominal] - nominal for nominal in nominals]
    print(f"{len(nominals)} occurrences, at most {max(lateness):.2f} s late", flush=True)
    assert min(lateness) >= 0, f"{-min(lateness)} s early"
    assert max(lateness) < LATE_MAX, f"{max(lateness)} s late"


def check_restart(cluster):
    """A new pod has the data of the old one."""
    escctl(cluster, "schedule", "create", "kept", "--every=1h", "--http=http://127.0.0.1:1/")
    cluster.replace(cluster.pods[0])
    escctl(cluster, "schedule", "get", "kept")


def call_as_job(cluster, *words):
    """Runs escctl with the options of the Job that creates a cell."""
    job = next(each for each in cluster.objects if each["kind"] == "Job")
    spec = copy.deepcopy(job["spec"]["template"]["spec"]) | {"initContainers": []}
    container = spec["containers"][0]
    container["args"] = [word for word in container["args"] if word.startswith(("--server=", "--tls-"))] + list(words)
    return cluster.run_to_end(Pod(cluster, "call", {"metadata": {}, "spec": spec}, [], None))[container["name"]]


def check_cells(cluster, receiver):
    """The Job has created the cell and may run again. A tenant of the cell gets its events, and the cell has a backup of its own."""
    cluster.run_jobs()
    cell = json.loads(call_as_job(cluster, "cell", "get", "7", "-o", "json"))
    assert cell["weight"] == 2, cell
    call_as_job(cluster, "tenant", "create", "far", "--cell", "7")
    call_as_job(cluster, "schedule", "create", "pulse", "--tenant=far", "--every=1s", f"--http={receiver.url}/far")
    await_true("an event of cell 7", lambda: receiver.to("/far"), DEADLINE)
    await_true("a leader and a follower in each cell", lambda: call_as_job(cluster, "cell", "status").count("1 of 1 follow") == 2, DEADLINE)
    check_backup(cluster, "-cell-7")


def check_backup(cluster, of=""):
    """The CronJob's pod writes a whole backup, and keeps as many as it should."""
    pod = cluster.backup_pod(of)
    folder = pod.path_of("backups")
    older, foreign = folder / "escapement-20200101T000000Z.snapshot", folder / "notes"
    older.touch()
    foreign.touch()
    cluster.run_to_end(pod)
    assert foreign.exists() and not older.exists(), list(folder.iterdir())
    backups = [each for each in folder.iterdir() if each != foreign]
    assert len(backups) == 1, backups
    done = subprocess.run([PROGRAMS["/usr/bin/escctl"], "store", "snapshot", "import", folder, "--data-dir", cluster.folder / "imported"],
                          env={}, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0 and str(backups[0]) in done.stderr, done.stderr


def check_bucket(cluster, s3):
    """The CronJob's pod keeps as many backups in a bucket as it should, and escctl restores the newest one of them."""
    for key in ("jobs/it-escapement/escapement-20200101T000000Z.snapshot", "jobs/it-escapement/notes"):
        s3.call("Put", key=key, text="old")
    cluster.run_to_end(cluster.backup_pod())
    keys = sorted(s3.call("State")["objects"])
    assert len(keys) == 2 and keys[1] == "jobs/it-escapement/notes" and "T000000Z" not in keys[0], keys
    spec = chart.restore_spec(s3=True, full="it-escapement")
    spec["volumes"] = []
    spec["containers"][0] |= {"volumeMounts": [], "args": [
        each.replace("s3://my-bucket/jobs/escapement", "s3://backups/jobs/it-escapement").replace(
            "/var/lib/escapement/data", str(cluster.folder / "imported")) for each in spec["containers"][0]["args"]] + [
                f"--s3-endpoint={s3.url}"]}
    outputs = cluster.run_to_end(Pod(cluster, "restore", {"metadata": {}, "spec": spec}, [], None))
    assert keys[0] in outputs["restore"], outputs


def check_restore(cluster):
    """The pod of docs/operations/backup.md makes the platform what it was at the backup."""
    escctl(cluster, "schedule", "create", "saved", "--every=1h", "--http=http://127.0.0.1:1/")
    cluster.run_to_end(cluster.backup_pod())
    escctl(cluster, "schedule", "delete", "saved")
    served = cluster.pods.pop()
    assert served.stop() == 0, served.log()
    spec = chart.restore_spec("backups", full="it-escapement")
    cluster.run_to_end(Pod(cluster, "restore", {"metadata": {}, "spec": spec}, [], None))
    new = cluster.make(served.owner, 0)
    new.start()
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        new.await_probe(kind)
    escctl(cluster, "schedule", "get", "saved")


def check_restore_into_log(cluster, postgres):
    """The steps of docs/operations/backup.md make stores over a new log what they were at the backup."""
    escctl(cluster, "schedule", "create", "saved", "--every=1h", "--http=http://127.0.0.1:1/")
    cluster.run_to_end(cluster.backup_pod())
    escctl(cluster, "schedule", "delete", "saved")
    stop_all(cluster)
    for owner in cluster.owners():
        for claim in owner["spec"].get("volumeClaimTemplates", []):
            for folder in (cluster.folder / "claims").glob(f"{claim['metadata']['name']}-{owner['metadata']['name']}-*"):
                shutil.rmtree(folder)
    cluster.secrets["database"]["url"] = postgres.with_database("restored")
    cluster.secrets["escapement-database"] = cluster.secrets["database"] | {"ca.crt": ""}
    spec = chart.restore_spec("backups", "postgresql", full="it-escapement")
    cluster.run_to_end(Pod(cluster, "restore", {"metadata": {}, "spec": spec}, [], None))
    cluster.start()
    escctl(cluster, "schedule", "get", "saved")


def stop_all(cluster):
    """A service that drains needs its store, to give its leases back."""
    for pod in sorted(cluster.pods, key=lambda pod: pod.owner["kind"] == "StatefulSet"):
        assert pod.stop() == 0, pod.log()
    cluster.pods.clear()


def main(mode):
    folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
    running = [receiver := Receiver()]
    try:
        values = merged({"test": {"target": f"{receiver.url}/helm-test"}}, {"backup": {"schedule": "@daily", "keep": 1}}, VALUES[mode], SHORT)
        known = own_secrets(folder)
        if mode == "standalone_secure":
            running.append(s3 := S3())
            values = merged(values, s3.values)
            known["s3-keys"] = {"AWS_ACCESS_KEY_ID": "AKIDFAKE", "AWS_SECRET_ACCESS_KEY": "fake/secret+canary"}
        objects = chart.render(values)
        if "replicated" in mode:
            running.append(postgres := Postgres())
            known["database"] = {"url": postgres.url}
            known["database-7"] = {"url": postgres.with_database("cell_7")}
        cluster = Cluster(objects, known, folder)
        running.append(cluster)
        if "secure" in mode:
            names = next((each["spec"]["dnsNames"] for each in objects if each["kind"] == "Certificate"), ["escapement-service"])
            hosts = [cluster.address_of(pod) for pod in cluster.names()]
            known["certificates"] = known["it-escapement-tls"] = certificates(folder, names, hosts)
        cluster.start()
        check_helm_test(cluster, values, receiver)
        if mode == "replicated":
            check_crash(cluster)
            check_upgrade(cluster, receiver)
            check_restore_into_log(cluster, postgres)
        elif mode == "standalone":
            check_restart(cluster)
            check_restore(cluster)
        elif mode == "standalone_secure":
            check_bucket(cluster, s3)
        elif mode == "replicated_secure_cells":
            check_cells(cluster, receiver)
        else:
            check_backup(cluster)
        stop_all(cluster)
    finally:
        for each in reversed(running):
            each.end()


def check_flags():
    folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
    tls = certificates(folder, ["escapement-service"], [])
    known = own_secrets(folder) | {"kafka": {}, "certificates": tls}
    known["database"] = {"url": "postgresql://host/database", "ca.crt": tls["ca.crt"]}
    known |= {f"database-{cell['number']}": known["database"] for cell in chart.CELLS["cells"]}
    known |= {"jobs-app": {"uri": "postgresql://app:secret@jobs-rw.jobs:5432/app"}, "jobs-ca": {"ca.crt": tls["ca.crt"]}}
    known |= {f"escapement-{name}": known[name] for name in ("first-key", "secret-keys", "database")}
    known |= {f"{name}-tls": tls for name in ("it-escapement", "x")}
    for number, name in enumerate(chart.CASES):
        cluster = Cluster(chart.case(name), known, pathlib.Path(folder, str(number)))
        cluster.folder.mkdir()
        for owner in cluster.owners():
            pod = cluster.make(owner, 0)
            pod.check_flags()
        print(f"{name}: {len(cluster.pods)} programs", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "flags":
        check_flags()
    else:
        main(sys.argv[1])
