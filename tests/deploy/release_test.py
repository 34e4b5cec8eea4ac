"""What tools/release refuses, what it assembles and signs: the image, the Debian package and the list of parts. Needs no network,
and no cosign: a program that says how it was called stands for it."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from root_folder import RUNFILES, SERVICES, archive, gather_programs, installed_name, skip_unless_root

sys.path.insert(0, str(RUNFILES / "tools/lib/release"))
import licenses  # noqa: E402

VERSION, COMMIT = "0.0.0-dev", "unknown"  # of programs that are no release
DATE = "1700000000"
# Writes its words to calls, and the bundle that it is asked for.
COSIGN = """#!/bin/sh
echo "$*" >>"$(dirname "$0")/calls"
while [ $# -gt 1 ]; do
  [ "$1" != --bundle ] || echo signed >"$2"
  shift
done
"""


def folder_with_cosign(folder):
    """A folder for PATH."""
    folder.mkdir(parents=True)
    (folder / "cosign").write_text(COSIGN, encoding="utf-8")
    (folder / "cosign").chmod(0o755)
    return folder


class ArgumentsTest(unittest.TestCase):
    """Refusals in a tree without a chart: what passes all other checks is told that it is missing."""

    @classmethod
    def setUpClass(cls):
        cls.tree = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        cls.addClassCleanup(shutil.rmtree, cls.tree)
        (cls.tree / "tools/lib").mkdir(parents=True)
        (cls.tree / "tools/lib/release").mkdir()
        for name in ("tools/release", "tools/lib/common.sh", "tools/lib/release/sign"):
            shutil.copy(RUNFILES / name, cls.tree / name)
        for command in (["init", "--quiet"], ["add", "."],
                        ["-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "--quiet", "--message=t"]):
            subprocess.run(["git", *command], cwd=cls.tree, check=True)

    def said(self, *arguments, path=os.environ["PATH"]):
        done = subprocess.run(
            [self.tree / "tools/release", *arguments], stderr=subprocess.PIPE, text=True, check=False, cwd="/",
            env=os.environ | {"PATH": path})
        self.assertNotEqual(done.returncode, 0, arguments)
        return done.stderr

    def test_refuses_what_is_no_semantic_version(self):
        for version in ("1", "1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3-a..b", "1.2.3+", "1.2.3 ", "a/b"):
            self.assertIn("is not a semantic version", self.said(version), version)
        for version in ("1.2.3", "0.0.0-dev", "10.20.30-rc.1+build.5", "1.0.0-0a.-"):
            self.assertIn("there is no chart", self.said(version), version)

    def test_shows_its_usage(self):
        for arguments in ([], ["1.2.3", "1.2.4"], ["1.2.3", "--bogus"], ["--allow_dirty"], ["1.2.3", "--sign="], ["1.2.3", "--base_digest="]):
            self.assertIn("tools/release VERSION [--allow_dirty]", self.said(*arguments), arguments)

    def test_refuses_changes_that_are_not_committed(self):
        change = self.tree / "change"
        change.write_text("x", encoding="utf-8")
        self.addCleanup(change.unlink)
        self.assertIn("not committed", self.said("1.2.3"))
        self.assertIn("there is no chart", self.said("1.2.3", "--allow_dirty"))


    def test_refuses_a_digest_that_is_none(self):
        for digest in ("abc", "sha256:abc", "sha512:" + 64 * "0", "sha256:" + 64 * "G"):
            self.assertIn("64 hexadecimal digits", self.said("1.2.3", f"--base_digest={digest}"), digest)
        self.assertIn("there is no chart", self.said("1.2.3", "--base_digest=sha256:" + 64 * "0"))

    def test_says_at_once_why_it_cannot_sign(self):
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
            # This machine may have cosign.
            without = pathlib.Path(folder, "without")
            without.mkdir()
            for name in ("basename", "bash", "dirname"):
                (without / name).symlink_to(shutil.which(name))
            self.assertIn("cosign is not installed", self.said("1.2.3", "--sign=cosign.key", path=str(without)))
            path = f"{folder_with_cosign(pathlib.Path(folder, 'bin'))}:{os.environ['PATH']}"
            self.assertIn("the key /none.key cannot be read", self.said("1.2.3", "--sign=none.key", path=path))
            key = pathlib.Path(folder, "cosign.key")
            key.write_text("key", encoding="utf-8")
            self.assertIn("there is no chart", self.said("1.2.3", f"--sign={key}", path=path))
            self.assertIn("there is no chart", self.said("1.2.3", "--sign=awskms:///alias/release", path=path))


class SignTest(unittest.TestCase):
    """tools/lib/release/sign, over a folder like dist/."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, self.folder)
        self.bin = folder_with_cosign(self.folder / "bin")
        self.dist = self.folder / "dist"
        self.dist.mkdir()
        (self.dist / "image.tar").write_text("image", encoding="utf-8")
        (self.dist / "SHA256SUMS").write_text(f"{hashlib.sha256(b'image').hexdigest()}  image.tar\n", encoding="utf-8")

    def sign(self, key="awskms:///alias/release"):
        return subprocess.run(
            [RUNFILES / "tools/lib/release/sign", key, self.dist], stderr=subprocess.PIPE, text=True, check=False,
            env=os.environ | {"PATH": f"{self.bin}:{os.environ['PATH']}"})

    def test_signs_the_checksums(self):
        done = self.sign()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.bin / "calls").read_text(encoding="utf-8"),
                         "sign-blob --yes --key awskms:///alias/release --bundle SHA256SUMS.sigstore.json SHA256SUMS\n")
        self.assertTrue((self.dist / "SHA256SUMS.sigstore.json").exists())

    def test_signs_no_checksums_of_other_files(self):
        (self.dist / "image.tar").write_text("another", encoding="utf-8")
        self.assertIn("are not those of SHA256SUMS", self.sign().stderr)
        self.assertFalse((self.bin / "calls").exists())

    def test_fails_if_cosign_fails_or_writes_nothing(self):
        for script, words in (("exit 3", ""), ("exit 0", "has written no")):
            (self.bin / "cosign").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            done = self.sign()
            self.assertNotEqual(done.returncode, 0, script)
            self.assertIn(words, done.stderr)


class LicensesTest(unittest.TestCase):
    HEAD = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n"

    def declared(self, *stanzas, more=""):
        return licenses.stated(self.HEAD + "\n".join(
            f"Files: {files}\nCopyright: somebody\nLicense: {name}\n" for files, name in stanzas) + more)[0]

    def test_names_become_spdx_ids(self):
        for name, spdx in (
                ("Apache-2.0", "Apache-2.0"), ("Expat", "MIT"), ("BSD-3-clause", "BSD-3-Clause"), ("zlib", "Zlib"),
                ("GPL-2", "GPL-2.0-only"), ("GPL-2+", "GPL-2.0-or-later"), ("GPL-2.0+", "GPL-2.0-or-later"),
                ("LGPL-2.1+", "LGPL-2.1-or-later"), ("GPL-3+ with Libtool exception", "GPL-3.0-or-later WITH Libtool-exception"),
                ("GPL-2+ or Expat", "GPL-2.0-or-later OR MIT"), ("ISC and Expat or Zlib", "ISC AND MIT OR Zlib")):
            self.assertEqual(self.declared(("*", name)), spdx, name)

    def test_unclear_names_make_no_assertion(self):
        for name in ("MIT", "BSD", "BSD3", "public-domain", "GPL", "GPL-9", "LGPL-1.5", "GPL-3+ with Autoconf exception",
                     "Expat and Beerware", "GPL-2+, or Expat", ""):
            self.assertEqual(self.declared(("*", name)), "NOASSERTION", name)
        self.assertEqual(licenses.stated("It was downloaded from somewhere.\n\nLicense: Expat\n"), ("NOASSERTION", []))

    def test_mit_is_known_by_its_text(self):
        text = " ".join(licenses.MIT)
        self.assertEqual(self.declared(("*", "MIT"), more=f"\nLicense: MIT\n {text}\n"), "MIT")
        self.assertEqual(self.declared(("*", "MIT"), more=f"\nLicense: MIT\n {text} and more\n"), "NOASSERTION")

    def test_groups_of_files_are_joined(self):
        self.assertEqual(self.declared(("*", "Zlib"), ("src/a src/b", "GPL-2 or Expat"), ("c", "Zlib")),
                         "(GPL-2.0-only OR MIT) AND Zlib")
        # The packaging is in no program.
        self.assertEqual(self.declared(("*", "Zlib"), ("debian/*", "GPL-3+")), "Zlib")
        self.assertEqual(self.declared(("*", "Zlib"), ("contrib/*", "Kazlib")), "NOASSERTION")


class AssembledTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        gather_programs(cls.folder / "programs")
        cls.dist = cls.folder / "dist"
        cls.dist.mkdir()
        done = cls.assemble(VERSION, COMMIT)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        cls.document = json.loads((cls.dist / f"escapement-{VERSION}.spdx.json").read_text(encoding="utf-8"))

    @classmethod
    def assemble(cls, version, commit):
        return subprocess.run(
            [RUNFILES / "tools/lib/release/assemble", cls.folder / "programs", archive("image"), version, commit,
             "Test <test@localhost>", cls.dist], stderr=subprocess.PIPE, text=True, check=False,
            env=os.environ | {"SOURCE_DATE_EPOCH": DATE, "DEB_COMPRESSION_LEVEL": "1", "HOME": str(cls.folder),
                              "TMPDIR": str(cls.folder)})

    def test_makes_image_package_and_list(self):
        architecture = subprocess.run(
            ["dpkg", "--print-architecture"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        self.assertEqual(sorted(os.listdir(self.dist)), [
            f"escapement-{VERSION}-image.tar", f"escapement-{VERSION}.spdx.json", f"escapement_0.0.0~dev_{architecture}.deb"])

    def test_refuses_programs_of_another_version(self):
        self.assertIn("is not version 1.2.3 of commit unknown", self.assemble("1.2.3", COMMIT).stderr)
        self.assertIn(f"is not version {VERSION} of commit abc", self.assemble(VERSION, "abc").stderr)

    def test_list_has_what_spdx_requires(self):
        document = self.document
        self.assertEqual(document["spdxVersion"], "SPDX-2.3")
        self.assertEqual(document["dataLicense"], "CC0-1.0")
        self.assertEqual(document["SPDXID"], "SPDXRef-DOCUMENT")
        self.assertTrue(document["name"])
        self.assertRegex(document["documentNamespace"], "^urn:uuid:[0-9a-f-]{36}$")
        self.assertEqual(document["creationInfo"]["created"], "2023-11-14T22:13:20Z")
        for creator in document["creationInfo"]["creators"]:
            self.assertRegex(creator, "^(Tool|Organization|Person): .")
        ids = [package["SPDXID"] for package in document["packages"]] + ["SPDXRef-DOCUMENT"]
        self.assertEqual(len(ids), len(set(ids)))
        for package in document["packages"]:
            self.assertRegex(package["SPDXID"], "^SPDXRef-[A-Za-z0-9.-]+$")
            self.assertTrue(package["name"] and package["versionInfo"])
            self.assertEqual(package["downloadLocation"], "NOASSERTION")
            # Without files there is no verification code.
            self.assertIs(package["filesAnalyzed"], False)
            for checksum in package.get("checksums", []):
                self.assertEqual(checksum["algorithm"], "SHA256")
                self.assertRegex(checksum["checksumValue"], "^[0-9a-f]{64}$")
            for reference in package.get("externalRefs", []):
                self.assertEqual((reference["referenceCategory"], reference["referenceType"]), ("PACKAGE-MANAGER", "purl"))
                self.assertRegex(
                    reference["referenceLocator"],
                    "^pkg:(deb/debian/([a-z0-9.-]|%2B)+@[^@/ ]+[?]arch=[a-z0-9]+&distro=debian-12|npm/[a-z-]+@[0-9.]+)$")
        for relation in document["relationships"]:
            self.assertIn(relation["spdxElementId"], ids)
            self.assertIn(relation["relatedSpdxElement"], ids)
            self.assertIn(relation["relationshipType"], ("DESCRIBES", "CONTAINS"))
        self.assertEqual([relation["relatedSpdxElement"] for relation in document["relationships"]
                          if relation["relationshipType"] == "DESCRIBES"], ["SPDXRef-Image"])

    def test_list_names_programs_libraries_and_data(self):
        names = {package["name"] for package in self.document["packages"]}
        libraries = (RUNFILES / "deploy/images/libraries").read_text(encoding="utf-8").splitlines()
        expected = {line for line in libraries if not line.startswith("#")}
        expected |= {"ca-certificates", "tzdata", "librocksdb-dev", "escctl"} | {installed_name(name) for name in SERVICES}
        self.assertEqual(expected - names, set())

    def test_list_states_licenses_that_are_clear(self):
        packages = {package["name"]: package for package in self.document["packages"]}
        ids = {*licenses.NAMES.values(), "NOASSERTION"}
        for package in packages.values():
            for part in re.split(r" AND | OR |[()]", package["licenseDeclared"]):
                if not re.fullmatch(r"|L?GPL-\d\.\d-(only|or-later)( WITH Libtool-exception)?", part):
                    self.assertIn(part, ids, package["name"])
            self.assertEqual(package["licenseConcluded"], "NOASSERTION")
        declared = {name: package["licenseDeclared"] for name, package in packages.items()}
        self.assertEqual(
            {name: declared[name] for name in ("zlib1g", "libabsl20220623", "libspdlog1.10", "libcli11-dev", "grpc-proto", "htm",
                                               "js-yaml", "preact", "uplot", "libc6", "tzdata", "escctl")},
            {"zlib1g": "Zlib", "libabsl20220623": "Apache-2.0", "libspdlog1.10": "MIT", "libcli11-dev": "BSD-3-Clause",
             "grpc-proto": "Apache-2.0", "htm": "Apache-2.0", "js-yaml": "MIT", "preact": "MIT", "uplot": "MIT",
             "libc6": "NOASSERTION", "tzdata": "NOASSERTION", "escctl": "NOASSERTION"})
        # A package whose license is not clear says what Debian's file has.
        self.assertIn("names public-domain", packages["tzdata"]["licenseComments"])
        self.assertNotIn("is missing", str([package.get("licenseComments") for package in packages.values()]))

    def test_list_has_the_digest_of_the_base(self):
        base = next(package for package in self.document["packages"] if package["SPDXID"] == "SPDXRef-Base")
        with open(archive("image"), "rb") as file:
            self.assertEqual(base["checksums"][0]["checksumValue"], hashlib.file_digest(file, "sha256").hexdigest())

    def test_checksum_in_the_list_is_that_of_the_image(self):
        image = self.document["packages"][0]
        printed = subprocess.run(
            ["sha256sum", self.dist / image["packageFileName"]], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(re.match("[0-9a-f]+", printed).group(), image["checksums"][0]["checksumValue"])


if __name__ == "__main__":
    skip_unless_root()
    unittest.main(verbosity=2, warnings="ignore")
