"""Child processes for the tests of docs/clients, README.md and deploy: a standalone platform, consumers, producers.

Each process is ended by its process id. Nothing waits without a deadline.
"""
import json
import os
import queue
import secrets
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

DEADLINE = 60  # seconds for each wait


def await_true(what, condition, deadline=DEADLINE):
    """Asks `condition` until it holds."""
    end = time.monotonic() + deadline
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen within {deadline} s")
        threading.Event().wait(0.02)
    return value


def addresses():
    """Addresses that no other test has: a listening socket on the last one of a network keeps the network."""
    with socket.socket() as kept:
        while True:
            network = f"127.{64 + secrets.randbelow(128)}.{secrets.randbelow(256)}"
            try:
                kept.bind((f"{network}.254", 7410))
                break
            except OSError:
                continue
        for host in range(1, 254):
            yield f"{network}.{host}"


class Child:
    """A running program whose output lines the test awaits. Its stderr goes to the test's log."""

    def __init__(self, name, command, **options):
        self.name = name
        self.lines = []  # all lines that next_line has returned
        self._queue = queue.Queue()
        self._process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self):
        return self._process.pid

    @property
    def exit_code(self):
        """None while it runs."""
        return self._process.poll()

    def _read(self):
        for line in self._process.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def next_line(self):
        """The next line of stdout, or None at its end."""
        try:
            line = self._queue.get(timeout=DEADLINE)
        except queue.Empty:
            raise AssertionError(f"the {self.name} said nothing for {DEADLINE} s after {self.lines}") from None
        if line is not None:
            print(f"{self.name}: {line}", flush=True)
            self.lines.append(line)
        return line

    def await_line(self, prefix):
        """Skips lines until one begins with `prefix`; returns what follows."""
        while (line := self.next_line()) is not None:
            if line.startswith(prefix):
                return line[len(prefix):]
        raise AssertionError(f"the {self.name} ended without a line that begins with {prefix!r}: {self.lines}")

    def press_enter(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def wait(self):
        """Reads the rest of the output and returns the exit code."""
        self._process.stdin.close()
        while self.next_line() is not None:
            pass
        return self._process.wait(timeout=DEADLINE)

    def end(self):
        """Sends SIGTERM, and SIGKILL to a process that stays."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=DEADLINE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(DEADLINE)


class Standalone:
    """A platform in one process, by default on ports that the system chooses."""

    def __init__(self, program, folder, *flags, listen="127.0.0.1:0"):
        ports = os.path.join(folder, "ports")
        with open(os.path.join(folder, "standalone.log"), "wb") as log:
            self._child = Child(
                "platform",
                [program, f"--listen={listen}", "--http_listen=127.0.0.1:0", f"--port_file={ports}",
                 f"--data_dir={folder}/data", *flags], stderr=log)
        self._child.await_line("listening ")
        with open(ports, encoding="utf-8") as file:
            words = dict(word.split("=", 1) for word in file.read().split() if "=" in word)
        self.grpc, self.http = words["grpc"], words["http"]
        await_true("readiness", lambda: self.status("/readyz") == 200)
        # Without proxies: everything is on this machine.
        self.environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        self.environment |= {"ESCAPEMENT_SERVER": self.grpc, "ESCAPEMENT_URL": f"http://{self.http}"}

    def _get(self, path):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{self.http}{path}", timeout=DEADLINE) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def status(self, path):
        return self._get(path)[0]

    def text(self, path):
        return self._get(path)[1].decode()

    def get(self, path):
        """The JSON at a path below the tenant."""
        status, body = self._get(f"/v1/tenants/default/{path}")
        if status != 200:
            raise AssertionError(f"{path}: {status} {body.decode()}")
        return json.loads(body)

    def kill(self):
        os.kill(self._child.pid, signal.SIGKILL)
        self._child.end()

    def end(self):
        self._child.end()
