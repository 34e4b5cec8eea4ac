"""Builds the Debian package from programs that Bazel has built, checks its units, and installs, upgrades, removes and purges it in
the root folder of a small Debian, where each service is started as its unit would start it. Needs no network."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

from root_folder import (
    DEADLINE, RUNFILES, SERVICES, RootFolder, archive, await_true, gather_programs, installed_name, skip_unless_root)

EXPOSURE_MAX = 30  # tenths, as systemd-analyze takes it
PROGRAMS = [installed_name(service) for service in SERVICES]
CONFFILES = sorted(f"etc/escapement/{program.removeprefix('escapement-')}.yaml" for program in PROGRAMS)


def build(folder, version):
    name = subprocess.run(
        [RUNFILES / "tools/lib/release/debian", FOLDER / "programs", version, "Test <test@localhost>", folder],
        stdout=subprocess.PIPE, text=True, check=True,
        env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000", "DEB_COMPRESSION_LEVEL": "1", "TMPDIR": str(FOLDER)}).stdout.strip()
    return folder / name


def read_unit(path):
    """Section → setting → values, in their order."""
    sections, section = {}, None
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            section.setdefault(name, []).append(value)
    return sections


def commands_of(document, heading):
    """The blocks of commands of a section."""
    text = (RUNFILES / document).read_text(encoding="utf-8")
    section = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL).group(1)
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def setUpModule():
    global FOLDER, PACKAGE
    FOLDER = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
    unittest.addModuleCleanup(shutil.rmtree, FOLDER)
    gather_programs(FOLDER / "programs")
    PACKAGE = build(FOLDER, "1.2.3-rc.1")


def new_machine(test):
    """A folder for the test, and in it the root folder of a small Debian with PACKAGE in /tmp."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
    test.addCleanup(shutil.rmtree, folder)
    root = folder / "root"
    root.mkdir()
    subprocess.run(["tar", "-C", root, "--exclude=./dev/*", "-xf", archive("machine")], check=True)
    shutil.copy(PACKAGE, root / "tmp")
    return folder, root


class DebianTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder, cls.package = FOLDER, PACKAGE
        cls.files = FOLDER / "files"
        subprocess.run(["dpkg-deb", "--extract", cls.package, cls.files], check=True)
        cls.units = {program: cls.files / f"lib/systemd/system/{program}.service" for program in PROGRAMS}

    def test_has_the_manual_and_completions_of_escctl(self):
        for file in ("man/man1/escctl.1.gz", "bash-completion/completions/escctl", "zsh/vendor-completions/_escctl",
                     "fish/vendor_completions.d/escctl.fish"):
            self.assertGreater((self.files / "usr/share" / file).stat().st_size, 1000, file)

    def field(self, name):
        return subprocess.run(
            ["dpkg-deb", "--field", self.package, name], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    def test_has_a_unit_and_a_file_of_settings_for_each_service(self):
        units = self.files / "lib/systemd/system"
        self.assertEqual(sorted(os.listdir(units)), sorted(f"{program}.service" for program in PROGRAMS))
        self.assertEqual(sorted(str(path.relative_to(self.files)) for path in self.files.glob("etc/*/*")), CONFFILES)
        for program, path in self.units.items():
            self.assertNotIn("@NAME@", path.read_text(encoding="utf-8"))
            service = read_unit(path)["Service"]
            self.assertEqual(service["User"], ["escapement"])
            self.assertTrue(service["ExecStart"][0].startswith(f"/usr/bin/{program} "), service["ExecStart"])

    def test_units_are_hardened(self):
        for path in self.units.values():
            done = subprocess.run(
                ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", path],
                stdout=subprocess.PIPE, text=True, check=False)
            last = done.stdout.strip().splitlines()[-1]
            print(last, flush=True)
            self.assertEqual(done.returncode, 0, last)
            # A unit that cannot be read has no exposure either.
            self.assertRegex(last, rf"exposure level for {path.name}: [0-9.]+ ")

    def test_version_sorts_as_debian_expects(self):
        self.assertEqual(self.field("Version"), "1.2.3~rc.1")
        subprocess.run(["dpkg", "--compare-versions", self.field("Version"), "lt", "1.2.3"], check=True)
        self.assertEqual(self.field("Package"), "escapement")
        self.assertIn("libgrpc++1.51", self.field("Depends"))

    def test_same_input_gives_the_same_package(self):
        again = FOLDER / "again"
        again.mkdir()
        self.assertEqual(self.package.read_bytes(), build(again, "1.2.3-rc.1").read_bytes())


class InstalledTest(unittest.TestCase):
    """One life of the package in a root folder."""

    def setUp(self):
        self.folder, self.path = new_machine(self)
        self.as_root = RootFolder(self.path, "rw", "0:0")

    def dpkg(self, *arguments):
        print("$ dpkg", *arguments, flush=True)
        print(self.as_root.run("dpkg", *arguments, env={"DEBIAN_FRONTEND": "noninteractive"}), flush=True)

    def install(self, package):
        shutil.copy(package, self.path / "tmp")
        self.dpkg("--install", f"/tmp/{package.name}")

    def status(self):
        return self.as_root.run("dpkg-query", "-W", "-f", "${db:Status-Status}", "escapement", check=False)

    def start(self, program, *flags):
        """Starts a service by the command of its unit, as its user, with its state folder, on free ports."""
        service = read_unit(self.path / f"lib/systemd/system/{program}.service")["Service"]
        passwd = (self.path / "etc/passwd").read_text(encoding="utf-8")
        _, _, user, group, *_ = re.search(r"^escapement:.*$", passwd, re.MULTILINE).group().split(":")
        state = self.path / "var/lib" / service["StateDirectory"][0]
        state.mkdir(parents=True, mode=int(service["StateDirectoryMode"][0], 8), exist_ok=True)
        os.chown(state, int(user), int(group))
        process = RootFolder(self.path, "ro", f"{user}:{group}").start(
            program, *shlex.split(service["ExecStart"][0]), "--listen=127.0.0.1:0", "--http_listen=127.0.0.1:0", *flags,
            data=self.path / "var/lib/escapement")
        self.addCleanup(process.end)
        process.check_healthy()
        self.assertEqual(process.users(), [user] * 4)
        return process

    def run_all(self):
        store = self.start("escapement-store")
        others = [self.start(program, f"--store={store.grpc}")
                  for program in PROGRAMS if program not in ("escapement-store", "escapement-standalone")]
        for process in [*others, store, self.start("escapement-standalone")]:
            self.assertEqual(process.end(), 0, process.child.name)

    def test_installs_serves_upgrades_and_goes(self):
        self.install(PACKAGE)
        self.assertEqual(self.status(), "installed")
        self.assertRegex((self.path / "etc/passwd").read_text(encoding="utf-8"), "(?m)^escapement:.*:/usr/sbin/nologin$")
        self.assertEqual(list((self.path / "etc/systemd/system").rglob("escapement*")), [], "nothing is enabled")
        self.assertIn("escapement-store 0.0.0-dev", self.as_root.run("escapement-store", "--version"))
        self.as_root.run("systemd-analyze", "verify", "--man=no", *[f"{program}.service" for program in PROGRAMS])
        self.run_all()

        # An upgrade keeps the settings of the operator.
        settings = self.path / "etc/escapement/standalone.yaml"
        settings.write_text(settings.read_text(encoding="utf-8") + "retention: 24h\n", encoding="utf-8")
        self.install(build(self.folder, "1.2.3"))
        self.assertIn("retention: 24h", settings.read_text(encoding="utf-8"))
        self.assertIn('retention: "24h"', self.as_root.run(
            "escapement-standalone", "--config=/etc/escapement/standalone.yaml", "--print_config"))

        self.dpkg("--remove", "escapement")
        self.assertEqual(self.status(), "config-files")
        self.assertEqual(list(self.path.glob("usr/bin/esc*")) + list(self.path.glob("lib/systemd/system/escapement*")), [])
        self.assertTrue(settings.exists())
        self.dpkg("--purge", "escapement")
        self.assertEqual(self.status(), "")
        self.assertFalse((self.path / "etc/escapement").exists())
        self.assertTrue(any((self.path / "var/lib/escapement/store").iterdir()), "the data stay")


class BootedTest(unittest.TestCase):
    """systemd itself starts the units, in a container that has a network of its own."""

    def setUp(self):
        self.folder, self.path = new_machine(self)
        RootFolder(self.path, "rw", "0:0").run("dpkg", "--install", f"/tmp/{PACKAGE.name}")
        # A name of its own: two runs of this test may be on one machine.
        self.container = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--private-network", "--resolv-conf=off",
             "--timezone=off", "--console=pipe", f"--machine=test-{os.getpid()}", f"--directory={self.path}"],
            stdin=subprocess.DEVNULL)
        self.addCleanup(self.end)
        self.boot = await_true("the first process", self.first_process)
        if self.boot == "ended":
            self.skipTest("systemd-nspawn cannot start a container on this machine")
        await_true("systemd", lambda: self.inside("systemctl", "is-system-running", check=False) in ("running", "degraded"))

    def first_process(self):
        if self.container.poll() is not None:
            return "ended"
        children = pathlib.Path(f"/proc/{self.container.pid}/task/{self.container.pid}/children").read_text(encoding="utf-8")
        for child in children.split():
            # Before systemd, a process of systemd-nspawn prepares the container, and ends.
            try:
                command = pathlib.Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if command == "systemd":
                return child
        return None

    def inside(self, *command, check=True):
        return subprocess.run(
            ["nsenter", "--target", self.boot, "--all", *command], stdout=subprocess.PIPE, text=True, check=check,
            timeout=DEADLINE, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}).stdout.strip()

    def end(self):
        """Halts the container by its process id."""
        if self.container.poll() is None:
            self.container.terminate()
            try:
                self.container.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.container.kill()
                self.container.wait()

    def show(self, program, name):
        return self.inside("systemctl", "show", "--property", name, "--value", program)

    def start(self, program):
        self.inside("systemctl", "start", program)
        await_true(f"{program} on its port", lambda: self.readyz(program) == "200")
        self.assertEqual(self.show(program, "ActiveState"), "active")

    def readyz(self, program):
        settings = (self.path / f"etc/escapement/{program.removeprefix('escapement-')}.yaml").read_text(encoding="utf-8")
        address = re.search(r"^http_listen: (\S+)$", settings, re.MULTILINE).group(1)
        # curl of this machine, in the container's network.
        return subprocess.run(
            ["nsenter", "--target", self.boot, "--net", "curl", "--silent", "--noproxy", "*", "--output", "/dev/null",
             "--write-out", "%{http_code}", f"http://{address}/readyz"],
            stdout=subprocess.PIPE, text=True, check=False, timeout=DEADLINE).stdout

    def test_services_serve_in_the_sandbox_of_their_units(self):
        services = [program for program in PROGRAMS if program != "escapement-standalone"]
        for program in services:
            self.start(program)
        created = self.inside("escctl", "schedule", "create", "s", "--every", "1s", "--http", "http://127.0.0.1:9/")
        self.assertIn("s", created)
        # A standalone has the ports of the master, so systemd stops the master first.
        self.start("escapement-standalone")
        self.assertEqual(self.show("escapement-master", "ActiveState"), "inactive")
        # The store is stopped last, whatever the order here: the others give their leases back to it.
        self.inside("systemctl", "stop", *PROGRAMS)
        for program in PROGRAMS:
            self.assertEqual((self.show(program, "Result"), self.show(program, "ExecMainStatus")), ("success", "0"), program)
            # Nothing was started a second time behind our back.
            self.assertEqual(self.show(program, "NRestarts"), "0", program)
        print(self.inside("journalctl", "--no-pager", "--priority", "warning"), flush=True)

    def test_service_that_ends_is_started_again_however_often(self):
        self.start("escapement-standalone")
        for _ in range(7):
            process = self.show("escapement-standalone", "MainPID")
            self.inside("systemctl", "kill", "--kill-who=main", "--signal=KILL", "escapement-standalone")
            await_true("another process", lambda: self.show("escapement-standalone", "MainPID") not in ("0", process))
        await_true("standalone on its port", lambda: self.readyz("escapement-standalone") == "200")

    def test_backup_is_restored_as_the_documents_say(self):
        self.start("escapement-standalone")
        self.inside("escctl", "schedule", "create", "kept", "--every", "1h", "--http", "http://127.0.0.1:9/")
        (self.path / "backups").mkdir()
        export, restore = commands_of("docs/operations/backup.md", "With the Debian package")
        self.inside("sh", "-ec", export)
        self.inside("escctl", "schedule", "create", "later", "--every", "1h", "--http", "http://127.0.0.1:9/")
        self.inside("sh", "-ec", restore)
        await_true("standalone on its port", lambda: self.readyz("escapement-standalone") == "200")
        listed = self.inside("escctl", "schedule", "list", "--output", "json")
        self.assertIn("schedules/kept", listed)
        self.assertNotIn("schedules/later", listed)

    def test_upgrade_names_a_service_that_does_not_go_on(self):
        self.start("escapement-standalone")
        shutil.copy(PACKAGE, self.path / "srv")  # systemd has mounted another /tmp
        install = ("sh", "-c", f"dpkg --install /srv/{PACKAGE.name} 2>&1")
        self.assertNotIn("does not run", self.inside(*install))
        await_true("standalone on its port", lambda: self.readyz("escapement-standalone") == "200")
        settings = self.path / "etc/escapement/standalone.yaml"
        settings.write_text(settings.read_text(encoding="utf-8") + "no_such_setting: 1\n", encoding="utf-8")
        self.assertIn("escapement-standalone.service does not run with the new version", self.inside(*install))


if __name__ == "__main__":
    skip_unless_root()
    unittest.main(verbosity=2, warnings="ignore")
