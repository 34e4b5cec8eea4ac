"""Builds the image of deploy/images, and runs each program from its root folder: not as root, and nothing but the folder of the
data is writable. Needs no network: the base is an archive that tools/setup has made."""
import json
import os
import pathlib
import re
import shutil
import ssl
import stat
import subprocess
import tempfile
import unittest

from root_folder import RUNFILES, SERVICES, RootFolder, archive, gather_programs, installed_name, skip_unless_root

VERSION, COMMIT = "0.0.0-dev", "unknown"  # of programs that are no release
USER = 65532
DATE = "1700000000"
PROGRAMS = sorted([installed_name(service) for service in SERVICES] + ["escctl"])


class Buildah:
    """A storage of its own; the image under test is pulled from its archive."""

    def __init__(self, folder, image):
        self._with = ["buildah", "--root", folder / "storage", "--runroot", folder / "run", "--storage-driver", "vfs"]
        self.container = self("from", "--quiet", f"oci-archive:{image}")
        self.config = json.loads(self("inspect", self.container))["OCIv1"]["config"]
        self.root = pathlib.Path(self("mount", self.container))

    def __call__(self, *arguments):
        return subprocess.run(
            [str(word) for word in [*self._with, *arguments]], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def build(folder, name):
    image = folder / name
    subprocess.run(
        [RUNFILES / "tools/lib/release/image", folder / "programs", archive("image"), VERSION, COMMIT, image],
        check=True, env=os.environ | {"SOURCE_DATE_EPOCH": DATE, "HOME": str(folder), "TMPDIR": str(folder)})
    return image


def packages_of(root):
    """name → fields of the packages in the root folder."""
    packages = {}
    for paragraph in (root / "var/lib/dpkg/status").read_text(encoding="utf-8").strip().split("\n\n"):
        fields = dict(re.findall(r"^(\S+): (.*)$", paragraph, re.MULTILINE))
        packages[fields["Package"]] = fields
    return packages


class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        gather_programs(cls.folder / "programs")
        cls.archive = build(cls.folder, "image.tar")
        cls.image = Buildah(cls.folder, cls.archive)
        cls.root = RootFolder(cls.image.root, "ro", f"{USER}:{USER}")

    def test_configuration_names_user_volume_and_version(self):
        config = self.image.config
        self.assertEqual(config["User"], f"{USER}:{USER}")
        self.assertEqual(list(config["Volumes"]), ["/var/lib/escapement"])
        self.assertNotIn("Entrypoint", config)
        labels = {key.removeprefix("org.opencontainers.image."): text for key, text in config["Labels"].items()}
        self.assertEqual(labels.pop("title"), "Escapement")
        self.assertIn("Scheduler", labels.pop("description"))
        self.assertEqual(labels, {"version": VERSION, "revision": COMMIT})

    def test_dockerfile_takes_no_image_by_a_tag(self):
        text = (RUNFILES / "deploy/images/Dockerfile").read_text(encoding="utf-8")
        defaults = {name: value for name, _, value in re.findall(r"^ARG (\w+)(=(\S*))?$", text, re.MULTILINE)}
        stages, bases = set(), re.findall(r"^FROM (\S+) AS (\S+)$", text, re.MULTILINE)
        self.assertEqual(len(bases), len(re.findall("^FROM", text, re.MULTILINE)))
        for base, stage in bases:
            argument = re.fullmatch(r"\$\{(\w+)\}", base)
            value = defaults[argument[1]] if argument else base
            # A stage, or nothing: then the caller says which, and README.md that it is by digest.
            self.assertTrue(value in stages | {"scratch", ""} or "@sha256:" in value, base)
            stages.add(stage)
        self.assertEqual(defaults["DEBIAN"], "")
        readme = (RUNFILES / "deploy/images/README.md").read_text(encoding="utf-8")
        builds = re.findall(r"docker (?:buildx )?build [^\n]*(?:\\\n[^\n]*)*", readme)
        self.assertGreaterEqual(len(builds), 2)
        for build_command in builds:
            self.assertIn('--build-arg DEBIAN="$debian"', build_command)
        self.assertIn('debian="docker.io/library/debian:12-slim@', readme)

    def test_same_input_gives_the_same_archive(self):
        self.assertEqual(self.archive.read_bytes(), build(self.folder, "again.tar").read_bytes())

    def test_holds_no_program_but_ours(self):
        executables = []
        for path in self.image.root.rglob("*"):
            mode = path.lstat().st_mode
            self.assertFalse(stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID), path)
            # Libraries may be executable; so is the loader.
            if stat.S_ISREG(mode) and mode & 0o111 and not re.search(r"\.so(\.|$)", path.name):
                executables.append(str(path.relative_to(self.image.root)))
        self.assertEqual(sorted(executables), [f"usr/bin/{program}" for program in PROGRAMS])
        for name in ("bin", "sbin", "usr/sbin", "usr/local/bin"):
            folder = self.image.root / name
            self.assertEqual(list(folder.iterdir()) if folder.exists() else [], [], name)

    def test_packages_are_libraries_and_data(self):
        allowed = re.compile(r"lib[a-z0-9.+-]+|gcc-12-base|zlib1g|base-files|ca-certificates|tzdata")
        refused = re.compile(r".*-(dev|doc|dbg|bin|utils|tools)$")
        packages = packages_of(self.image.root)
        for package in packages:
            self.assertRegex(package, f"^({allowed.pattern})$")
            self.assertNotRegex(package, refused)
        self.assertLess(len(packages), 70)

    def test_user_may_write_to_its_data_alone(self):
        writable = set()
        for path in self.image.root.rglob("*"):
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                continue
            if status.st_uid == USER or status.st_gid == USER or status.st_mode & stat.S_IWOTH:
                writable.add(str(path.relative_to(self.image.root)))
        self.assertEqual(writable, {"var/lib/escapement", "tmp", "var/tmp", "var/lock"})

    def test_every_library_is_found(self):
        # The loader has another path on each architecture; a program names it.
        headers = subprocess.run(
            ["readelf", "--program-headers", self.folder / "programs/escctl"], stdout=subprocess.PIPE, text=True, check=True).stdout
        loader = re.search(r"program interpreter: (\S+)\]", headers)[1]
        for program in PROGRAMS:
            found = self.root.run(loader, "--list", f"/usr/bin/{program}", check=False)
            self.assertIn("libgrpc++", found)
            self.assertNotIn("not found", found, program)

    def test_list_of_libraries_is_that_of_the_programs(self):
        (self.folder / "debian").mkdir()
        (self.folder / "debian/control").write_text("Source: escapement\n\nPackage: escapement\nArchitecture: any\n")
        depends = subprocess.run(
            ["dpkg-shlibdeps", "-O", *(self.folder / "programs").iterdir()], cwd=self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, check=True).stdout.partition("=")[2]
        named = {word.split()[0] for word in depends.split(",")}
        real = set()
        for package, fields in packages_of(self.image.root).items():
            provided = {word.split()[0] for word in fields.get("Provides", "").split(",") if word.strip()}
            if package in named or provided & named:
                real.add(package)
        listed = (RUNFILES / "deploy/images/libraries").read_text(encoding="utf-8").splitlines()
        self.assertEqual(sorted(real), sorted(line for line in listed if not line.startswith("#")))

    def test_has_time_zones_and_authorities(self):
        self.assertTrue((self.image.root / "usr/share/zoneinfo/Europe/Berlin").exists())
        authorities = ssl.create_default_context(cafile=self.image.root / "etc/ssl/certs/ca-certificates.crt")
        self.assertGreater(authorities.cert_store_stats()["x509_ca"], 100)
        self.assertEqual(os.readlink(self.image.root / "usr/lib/ssl/cert.pem"), "/etc/ssl/certs/ca-certificates.crt")

    def test_programs_say_the_version_of_the_label(self):
        for program in PROGRAMS:
            self.assertEqual(self.root.run(f"/usr/bin/{program}", "--version"), f"{program} {VERSION} (commit {COMMIT})\n")

    def start(self, service, *flags):
        data = self.folder / "data" / service
        data.mkdir(parents=True)
        os.chown(data, USER, USER)
        process = self.root.start(
            service, f"/usr/bin/{installed_name(service)}", "--listen=127.0.0.1:0", "--http_listen=127.0.0.1:0", *flags,
            data=data)
        self.addCleanup(process.end)
        return process

    def check(self, service, process):
        process.check_healthy()
        self.assertEqual(process.users(), [str(USER)] * 4, service)

    def test_services_serve_on_a_read_only_root(self):
        store = self.start("store", "--data_dir=/var/lib/escapement")
        self.check("store", store)
        others = {service: self.start(service, f"--store={store.grpc}")
                  for service in ("master", "emitter", "handler", "token_manager")}
        for service, process in others.items():
            self.check(service, process)
        def create():
            return self.root.run(
                "/usr/bin/escctl", "schedule", "create", "s", "--cron", "30 2 L * *", "--time-zone", "Europe/Berlin", "--http",
                "http://127.0.0.1:9/", "-o", "json", check=False, env={"ESCAPEMENT_SERVER": others["master"].grpc})

        # gRPC 1.51 looks at errno some calls after connect, so a connection under way may be taken for a failed one (seen once).
        schedule = json.loads(create() or create())
        self.assertEqual(schedule["timeZone"], "Europe/Berlin")
        for process in [*others.values(), store]:
            self.assertEqual(process.end(), 0, process.child.name)

    def test_standalone_serves_on_a_read_only_root(self):
        process = self.start("standalone", "--data_dir=/var/lib/escapement")
        self.check("standalone", process)
        self.assertEqual(process.end(), 0)

    def test_root_folder_is_read_only(self):
        data = self.folder / "other_data"
        data.mkdir()
        as_root = RootFolder(self.image.root, "ro", "0:0")
        said = as_root.run("/usr/bin/escapement-store", "--data_dir=/etc/data", "--listen=127.0.0.1:0",
                              "--http_listen=127.0.0.1:0", check=False)
        self.assertNotIn("listening", said)


if __name__ == "__main__":
    skip_unless_root()
    unittest.main(verbosity=2, warnings="ignore")
