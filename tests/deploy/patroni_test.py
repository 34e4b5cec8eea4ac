"""Runs the platform over PostgreSQL that Patroni keeps, with the settings of docs/operations/postgresql.md: first the primary
dies, then the last standby. Patroni's own raft keeps what its members agree on. Needs no network."""
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import psycopg2
import yaml

ROOT = pathlib.Path(__file__).absolute().parents[2]  # of the runfiles
sys.path.insert(0, str(ROOT / "tests/clients"))
from processes import Child, Standalone, addresses, await_true  # noqa: E402

DEADLINE = 120  # seconds for each wait
# Seconds: how long Patroni waits for a primary that is silent, and how often it looks. Its defaults are 30 and 10.
TTL, LOOP_WAIT = 8, 1
# The page says how long nothing is acknowledged. This is room for a loaded machine.
SLACK = 30
PATIENCE = 3  # seconds that a client waits for an answer
SUPERUSER = {"username": "postgres", "password": "super"}


def page():
    """Of the page: the statements for a superuser, and Patroni's settings."""
    text = (ROOT / "docs/operations/postgresql.md").read_text(encoding="utf-8")
    sql = re.search(r"^```sql\n(.*?)^```$", text, re.MULTILINE | re.DOTALL).group(1)
    settings = re.search(r"^## Patroni\n.*?^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL).group(1)
    return [each for each in sql.split(";\n") if each.strip()], yaml.safe_load(settings)


def free_port(address):
    with socket.socket() as free:
        free.bind((address, 0))
        return f"{address}:{free.getsockname()[1]}"


class Node:
    """A machine with Patroni and its PostgreSQL. All its processes work in its folder."""

    def __init__(self, name, folder, config, program="patroni"):
        self.name, self.folder, self._program = name, pathlib.Path(folder, name), program
        self.folder.mkdir()
        self._process = None
        # PostgreSQL refuses to run as root. It runs as its own user, or in a user namespace if there is no such user, as in
        # Bazel's sandbox. If this process dies, Patroni ends and stops PostgreSQL.
        self._runner = ["setpriv", "--pdeathsig=TERM"]
        if os.geteuid() == 0:
            try:
                shutil.chown(self.folder, "postgres", "postgres")
                self._runner += ["--reuid=postgres", "--regid=postgres", "--clear-groups"]
            except OSError:
                self._runner = ["unshare", "--user", "--map-user=1000", "--map-group=1000", *self._runner]
        self._config = self.folder / "patroni.yml"
        self._config.write_text(json.dumps(config), encoding="utf-8")
        self.rest = config.get("restapi", {}).get("listen")
        self.postgres = config.get("postgresql", {}).get("listen")

    def start(self):
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TMPDIR": self.folder, "HOME": self.folder}
        with open(self._log(), "ab") as log:
            self._process = Child(self.name, [*self._runner, "--", f"/usr/bin/{self._program}", self._config], stderr=log,
                                  env=environment, cwd=self.folder)

    def _log(self):
        return self.folder.with_suffix(".log")

    def log(self):
        return self._log().read_text(encoding="utf-8", errors="replace")

    def is_in_role(self, role):
        """What Patroni says of the node: primary, replica, synchronous."""
        host, port = self.rest.split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=DEADLINE)
        try:
            connection.request("GET", f"/{role}")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def await_role(self, role):
        await_true(f"the role {role} of {self.name}", lambda: self.is_in_role(role), DEADLINE)

    @contextlib.contextmanager
    def cut_off(self):
        """The standby gets nothing from its primary."""
        [(receiver,)] = self.query("SELECT pid FROM pg_stat_wal_receiver")
        os.kill(receiver, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(receiver, signal.SIGCONT)

    def query(self, statement, database="postgres"):
        """As the superuser, outside of a transaction."""
        host, port = self.postgres.split(":")
        connection = psycopg2.connect(host=host, port=port, dbname=database, user=SUPERUSER["username"],
                                      password=SUPERUSER["password"])
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else None
        finally:
            connection.close()

    def _processes(self):
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                works_in = pathlib.Path(os.readlink(process / "cwd"))
            except OSError:
                continue  # it has ended
            if works_in == self.folder or self.folder in works_in.parents:
                found.append(int(process.name))
        return found

    def kill(self):
        """Ends Patroni and PostgreSQL at once, as a power failure does."""
        def all_gone():
            # Patroni first: it would start PostgreSQL again.
            for pid in sorted(self._processes(), key=lambda pid: pid != self._process.pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            return not self._processes()
        if self._process is not None:
            await_true(f"the end of {self.name}", all_gone, DEADLINE)
            self._process.wait()
            self._process = None


class Patroni:
    """Three nodes, and one process that keeps what they agree on."""

    def __init__(self, settings):
        # A short path, because of the sockets.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="escapement-patroni-", dir="/tmp"))
        self.folder.chmod(0o755)
        self._addresses = addresses()
        raft = self.listen()
        self._keeper = Node("keeper", self.folder, {"raft": {"self_addr": raft, "partner_addrs": []}}, "patroni_raft_controller")
        self.nodes = [Node(name, self.folder, self._config(name, raft, settings)) for name in ("a", "b", "c")]

    def listen(self):
        """host:port for a server. Its host is new, so that the port stays free until the server starts."""
        return free_port(next(self._addresses))

    def _config(self, name, raft, settings):
        rest, postgres, folder = self.listen(), self.listen(), f"{self.folder}/{name}"
        return {
            "scope": "escapement", "name": name,
            "raft": {"partner_addrs": [raft]},
            "restapi": {"listen": rest, "connect_address": rest},
            "bootstrap": {
                "dcs": {"ttl": TTL, "loop_wait": LOOP_WAIT, "retry_timeout": 3, **settings},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}]},
            "postgresql": {
                "listen": postgres, "connect_address": postgres, "data_dir": f"{folder}/data",
                "bin_dir": "/usr/lib/postgresql/15/bin", "pgpass": f"{folder}/pgpass", "use_pg_rewind": True,
                "authentication": {"superuser": SUPERUSER, "replication": {"username": "replicator", "password": "rep"}},
                "basebackup": [{"checkpoint": "fast"}],
                "pg_hba": ["host all all 127.0.0.0/8 scram-sha-256", "host replication replicator 127.0.0.0/8 scram-sha-256"],
                "parameters": {"unix_socket_directories": folder, "shared_buffers": "64MB"}}}

    def start(self):
        """The first node is the primary then, and the others are its standbys. Returns the synchronous one and the other one."""
        self._keeper.start()
        primary, *standbys = self.nodes
        primary.start()
        primary.await_role("primary")
        for node in standbys:
            node.start()
        for node in standbys:
            node.await_role("replica")
        await_true("a synchronous standby", lambda: any(node.is_in_role("synchronous") for node in standbys), DEADLINE)
        return sorted(standbys, key=lambda node: not node.is_in_role("synchronous"))

    def url(self):
        return f"postgresql://escapement:change-me@{','.join(node.postgres for node in self.nodes)}/escapement"

    def end(self):
        for node in (*self.nodes, self._keeper):
            node.kill()
        shutil.rmtree(self.folder)


class Writer:
    """A client that makes events one after the other and waits for each answer, but not for long."""

    def __init__(self, address):
        self.acknowledged = {}  # id → when it was sent, when it was answered
        self.unanswered = []  # when each was sent
        self._address = address
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        for number in itertools.count():
            if self._ended.wait(0.05):
                return
            sent = time.monotonic()
            if self._create(f"event-{number}"):
                self.acknowledged[f"event-{number}"] = (sent, time.monotonic())
            else:
                self.unanswered.append(sent)

    def _create(self, event):
        host, port = self._address.split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
        try:
            body = {"dueTime": "2099-01-01T00:00:00Z", "target": {"http": {"uri": "http://127.0.0.1:1/"}}}
            connection.request("POST", f"/v1/tenants/default/events?eventId={event}", json.dumps(body))
            answer = connection.getresponse()
            return answer.read() and answer.status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def answers_after(self, instant):
        """When events that were sent after the instant were answered."""
        return [answered for sent, answered in list(self.acknowledged.values()) if sent > instant]

    def await_answer_after(self, instant):
        """Returns how long after the instant the first event is answered that was sent after it."""
        return min(await_true("an answer", lambda: self.answers_after(instant), DEADLINE)) - instant

    def end(self):
        self._ended.set()
        self._thread.join()


class Stage:
    """The platform over Patroni, and what happens to it."""

    def __init__(self):
        self._ends = contextlib.ExitStack()
        self._folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self._ends.callback(shutil.rmtree, self._folder)
        self._sql, settings = page()
        self.patroni = Patroni(settings)
        self._ends.callback(self.patroni.end)

    def start(self):
        self.synchronous, self.other = self.patroni.start()
        self.primary = self.patroni.nodes[0]
        for statement in self._sql:
            self.primary.query(statement)
        self.platform = self.start_platform("one")
        self.writer = Writer(self.platform.http)
        self._ends.callback(self.writer.end)
        self.writer.await_answer_after(time.monotonic())
        owners = self.primary.query("SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'escapement'", "escapement")
        assert owners == [("escapement",)], owners
        self.await_safety(3)

    def start_platform(self, name):
        """A platform with an empty folder."""
        folder = pathlib.Path(self._folder, name)
        folder.mkdir()
        listen = self.patroni.listen()
        platform = Standalone(
            ROOT / "services/standalone/standalone", folder, f"--replicate_through={self.patroni.url()}", f"--store_id={name}",
            f"--advertise={listen}", listen=listen)
        self._ends.callback(platform.end)
        return platform

    def log(self):
        return pathlib.Path(self._folder, "one/standalone.log").read_text(encoding="utf-8")

    def status(self):
        return subprocess.run([ROOT / "tools/escctl/escctl", "--server", self.platform.grpc, "store", "status"],
                              stdout=subprocess.PIPE, text=True, check=True, timeout=DEADLINE).stdout

    def await_safety(self, value):
        line = f"\nescapement_store_log_safety {value}\n"
        await_true(f"safety {value}", lambda: line in self.platform.text("/metrics"), DEADLINE)

    def check_death_of_primary(self):
        """The synchronous standby is promoted, and commits go on once the other one is synchronous."""
        dead = time.monotonic()
        self.primary.kill()
        self.synchronous.await_role("primary")
        promoted = time.monotonic() - dead
        seconds = self.writer.await_answer_after(dead)
        print(f"the primary died: the standby was promoted after {promoted:.1f} s, commits went on after {seconds:.1f} s", flush=True)
        assert seconds < TTL + SLACK, seconds
        self.other.await_role("synchronous")
        self.await_safety(3)

    def check_death_of_last_standby(self):
        """Nothing is acknowledged then, and the platform says why."""
        self.other.kill()
        gone = time.monotonic()
        await_true("the reason", lambda: "the log has acknowledged nothing for" in self.platform.text("/readyz"), DEADLINE)
        assert self.platform.status("/readyz") == 503
        problem = "no synchronous standby is connected: commits wait until one is"
        await_true("the problem", lambda: problem in self.status(), DEADLINE)
        print(f"the last standby died: the status named it after {time.monotonic() - gone:.1f} s", flush=True)
        # Patroni has noticed it, too, and asks for any standby. Without the strict mode it asks for none then.
        await_true("Patroni's notice", lambda: self.synchronous.query("SHOW synchronous_standby_names") == [("*",)], DEADLINE)
        noticed = time.monotonic()
        await_true("an event without an answer", lambda: [sent for sent in self.writer.unanswered if sent > noticed], DEADLINE)
        assert not self.writer.answers_after(gone), "acknowledged without a standby"

    def check_return_of_primary(self):
        """The former primary follows the new one, and commits go on."""
        start = time.monotonic()
        self.primary.start()
        print(f"the former primary came back: commits went on after {self.writer.await_answer_after(start):.1f} s", flush=True)
        self.primary.await_role("synchronous")

    def check_death_after_cut(self):
        """The synchronous standby lacks much that was not acknowledged. It is promoted all the same."""
        primary, standby = self.synchronous, self.primary
        with standby.cut_off():
            # More than sockets hold.
            primary.query("SET synchronous_commit = local; "
                          "CREATE TABLE ballast AS SELECT md5(i::text) FROM generate_series(1, 400000) i")
            # Patroni has noted it.
            await_true("the lag", lambda: not standby.is_in_role("replica?lag=8MB"), DEADLINE)
            primary.kill()
        standby.await_role("primary")
        self.other.start()
        self.writer.await_answer_after(time.monotonic())

    def check_nothing_lost(self):
        """PostgreSQL alone has all that was acknowledged."""
        self.writer.end()
        self.platform.kill()
        assert "lost acknowledged rows" not in self.log(), "PostgreSQL lacked rows, and the store had to append them again"
        listed, token, platform = set(), "", self.start_platform("two")
        while True:
            answer = platform.get(f"events?pageSize=1000&pageToken={token}")
            listed |= {event["eventId"] for event in answer["events"]}
            if not (token := answer.get("nextPageToken")):
                break
        lost = self.writer.acknowledged.keys() - listed
        print(f"{len(self.writer.acknowledged)} events were acknowledged, {len(self.writer.unanswered)} were not", flush=True)
        assert not lost, f"acknowledged, but lost: {lost}"

    def show(self):
        print(self.log())
        for node in self.patroni.nodes:
            print(f"{node.name}:\n{node.log()}")

    def end(self):
        self._ends.close()


def main():
    stage = Stage()
    try:
        for step in (stage.start, stage.check_death_of_primary, stage.check_death_of_last_standby, stage.check_return_of_primary,
                     stage.check_death_after_cut, stage.check_nothing_lost):
            start = time.monotonic()
            step()
            print(f"{step.__name__} took {time.monotonic() - start:.1f} s", flush=True)
    except BaseException:
        stage.show()
        raise
    finally:
        stage.end()


if __name__ == "__main__":
    main()
