"""A root folder (of the image, or of a small Debian) in which a test runs programs, and the checks of a running service.

Programs run in a mount namespace of their own, so that nothing mounted here outlives them.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

import grpc

RUNFILES = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
sys.path.insert(0, str(RUNFILES / "tests/clients"))
from processes import DEADLINE, Child, await_true  # noqa: E402

SERVING = b"\x08\x01"  # grpc.health.v1.HealthCheckResponse

# $1 root, $2 "ro" or "rw", $3 folder of the data or "-", $4 user:group; then the command.
ENTER = """
root=$1 mode=$2 data=$3 user=$4
shift 4
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
[ "$data" = - ] || mount --bind "$data" "$root/var/lib/escapement"
[ "$mode" = rw ] || mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs chroot --userspec="$user" --groups= "$root" "$@"
"""


def skip_unless_root():
    """Ends the test, with a sentence, where no root folder can be entered."""
    if os.geteuid() != 0:
        sys.exit(skip("it needs root, to enter a root folder"))
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        sys.exit(skip("this machine allows no mounts (CAP_SYS_ADMIN)"))


def skip(reason):
    print(f"SKIPPED: {reason}. Nothing was tested.")
    return 0


def archive(kind):
    """The archive of a root folder that tools/setup has made, with whatever HOME it had."""
    return subprocess.run([RUNFILES / "tools/lib/roots", kind], stdout=subprocess.PIPE, text=True, check=True,
                          env=os.environ | {"HOME": "/nonexistent"}).stdout.strip()


def installed_name(service):
    return "escapement-" + service.replace("_", "-")


SERVICES = ["store", "master", "emitter", "handler", "token_manager", "standalone"]


def gather_programs(folder):
    """Puts the programs that Bazel built into `folder`, with the names under which they are installed."""
    os.makedirs(folder)
    for service in SERVICES:
        shutil.copy(RUNFILES / "services" / service / service, folder / installed_name(service))
    shutil.copy(RUNFILES / "tools/escctl/escctl", folder / "escctl")
    for program in folder.iterdir():
        program.chmod(0o755)


class RootFolder:
    def __init__(self, path, mode, user):
        self.path, self._mode, self._user = pathlib.Path(path), mode, user

    def _entered(self, command, data):
        return ["unshare", "--mount", "--propagation", "private", "sh", "-euc", ENTER, "enter", self.path, self._mode,
                data or "-", self._user, *command]

    def run(self, *command, data=None, check=True, env=None):
        """Runs a command and returns its stdout."""
        done = subprocess.run(
            [str(word) for word in self._entered(command, data)], stdout=subprocess.PIPE, text=True, check=check,
            timeout=DEADLINE, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"} | (env or {}))
        return done.stdout

    def start(self, name, *command, data=None):
        return Service(name, self._entered(command, data))


class Service:
    """A service that listens on ports which the system chooses."""

    def __init__(self, name, command):
        self.child = Child(name, command, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
        try:
            words = dict(word.split("=", 1) for word in self.child.await_line("listening ").split())
        except AssertionError:
            self.child.end()
            raise
        self.grpc, self.http = words["grpc"], words["http"]

    def get(self, path):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{self.http}{path}", timeout=DEADLINE) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def health(self):
        with grpc.insecure_channel(self.grpc, options=[("grpc.enable_http_proxy", 0)]) as channel:
            check = channel.unary_unary(
                "/grpc.health.v1.Health/Check", request_serializer=bytes, response_deserializer=bytes)
            return check(b"", timeout=DEADLINE, wait_for_ready=True)

    def check_healthy(self):
        """Waits until the service can serve, and asks all its doors."""
        await_true("readiness", lambda: self.get("/readyz") == 200)
        await_true("gRPC health", lambda: self.health() == SERVING)
        assert self.get("/healthz") == 200

    def users(self):
        """(real, effective, saved, file system) user ids of the process."""
        with open(f"/proc/{self.child.pid}/status", encoding="utf-8") as status:
            return next(line.split()[1:] for line in status if line.startswith("Uid:"))

    def end(self):
        """SIGTERM; returns the exit code."""
        self.child.end()
        return self.child.exit_code
