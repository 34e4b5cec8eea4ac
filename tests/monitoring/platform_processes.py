"""A platform of real processes with load, for the tests of dashboards and for incidents.

Each process is ended by its process id, and dies with this one. Nothing waits without a deadline.
"""
import contextlib
import ctypes
import io
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))
from processes import Child, await_true  # noqa: E402

PR_SET_PDEATHSIG = 1
PR_SET_PTRACER = 0x59616d61
ANY = ctypes.c_ulong(-1)
_libc = ctypes.CDLL(None)


def before_start():
    """The child dies with this process. strace may attach to it, also where only parents may (Yama)."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _libc.prctl(PR_SET_PTRACER, ANY)


class Process(Child):
    """A child with a log, which can also be stopped and continued."""

    def __init__(self, name, command, folder, **options):
        with open(os.path.join(folder, f"{name}.log"), "ab") as log:
            super().__init__(name, command, stderr=log, preexec_fn=before_start, **options)

    def next_line(self):
        """As Child does, without showing the line."""
        with contextlib.redirect_stdout(io.StringIO()):
            return super().next_line()

    def signal(self, number):
        self._process.send_signal(number)

    def end(self):
        super().end()
        self._process.stdin.close()
        self._process.stdout.close()

    def kill(self):
        self._process.kill()
        self.end()


class Platform:
    """Store, master, emitter, handler and token manager, each in a process of its own."""

    def __init__(self, programs, folder, replicated=False):
        self._programs, self._folder = programs, folder
        self._ends = contextlib.ExitStack()
        self._grpc, self.http, self.processes = {}, {}, {}
        try:
            if replicated:
                self._start_replicas()
            else:
                self._start_service("store", [f"--data_dir={folder}/data"])
            stores = ",".join(address for name, address in self._grpc.items() if name.startswith("store"))
            with open(f"{folder}/secret.keys", "w", encoding="utf-8") as file:
                file.write("test: c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I=\n")
            for service in ("master", "emitter", "token_manager", "handler"):
                flags = [f"--store={stores}"]
                if service in ("master", "handler"):
                    flags.append(f"--secret_keys_file={folder}/secret.keys")
                if service == "master":
                    flags.append("--heartbeat_every=1s")
                self._start_service(service, flags)
        except BaseException:
            self.end()
            raise

    def _start_service(self, name, flags):
        service = name.partition(".")[0]
        process = self._start(name, [f"{self._programs}/services/{service}/{service}", "--listen=127.0.0.1:0",
                                     "--http_listen=127.0.0.1:0", *flags])
        words = dict(word.split("=", 1) for word in process.await_line("listening ").split() if "=" in word)
        self._grpc[name], self.http[name] = words["grpc"], words["http"]

    def _start_replicas(self):
        """Two stores over one PostgreSQL. Their ports are known only when they run, so each advertises one that was free."""
        postgres = Process("postgres", [f"{self._programs}/tests/fixtures/postgres/postgres_main"], self._folder)
        self._ends.callback(postgres.end)
        self._ends.callback(postgres.wait)  # it ends with its stdin, and removes its folder
        url = postgres.await_line("postgres ")
        for name in ("store", "store.2"):
            first = self._start(name, self._replica(name, url, "127.0.0.1:0", "127.0.0.1:0"))
            words = dict(word.split("=", 1) for word in first.await_line("listening ").split() if "=" in word)
            first.kill()
            self._grpc[name], self.http[name] = words["grpc"], words["http"]
        for name in ("store", "store.2"):
            self._start(name, self._replica(name, url, self._grpc[name], self.http[name])).await_line("listening ")

    def _replica(self, name, url, grpc, http):
        return [f"{self._programs}/services/store/store", f"--listen={grpc}", f"--http_listen={http}", f"--advertise={grpc}",
                f"--store_id={name}", f"--replicate_through={url}", f"--data_dir={self._folder}/data.{name}"]

    def _start(self, name, command):
        process = Process(name, command, self._folder)
        self.processes[name] = process
        self._ends.callback(process.end)
        return process

    def start_receiver(self, name, *flags):
        """A consumer. Returns the addresses of its HTTP and its gRPC port."""
        process = self._start(name, [f"{self._programs}/tests/fixtures/receiver", "--record=false", "--worker",
                                     f"--token_addresses={self._grpc['token_manager']}", *flags])
        http = process.await_line("http ")
        return f"127.0.0.1:{http}", f"127.0.0.1:{process.await_line('grpc ')}"

    def escctl(self, *words):
        """Runs escctl and returns what it prints. Fails if escctl does."""
        done = subprocess.run([f"{self._programs}/tools/escctl/escctl", "--server", self._grpc["master"], *words],
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise AssertionError(f"escctl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def await_ready(self):
        """Until the master answers: it needs the store, and a replicated store a leader."""
        def lists_schedules():
            try:
                return self.escctl("schedule", "list") is not None
            except AssertionError:
                return False
        await_true("an answer of the master", lists_schedules)

    def delay_syncs(self, milliseconds):
        """From now on each sync of the store's files takes so much longer, as on a slow disk. Returns the process that does it.

        strace attaches to the store and delays its system calls; it needs no privilege, only the same user.
        """
        calls = "fdatasync,fsync"
        return self._start("strace", ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e",
                                      f"inject={calls}:delay_enter={milliseconds * 1000}", "-p", self.processes["store"].pid])

    def end(self):
        """Ends all processes, the last one first."""
        for process in self.processes.values():
            if process.exit_code is None:
                process.signal(signal.SIGCONT)
        self._ends.close()
