"""What tools/release refuses, and what it assembles: the image, the Debian package and the list of parts. Needs no network."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from root_folder import RUNFILES, SERVICES, archive, gather_programs, installed_name, skip_unless_root

VERSION, COMMIT = "0.0.0-dev", "unknown"  # of programs that are no release
DATE = "1700000000"


class ArgumentsTest(unittest.TestCase):
    """Refusals in a tree without a chart: what passes all other checks is told that it is missing."""

    @classmethod
    def setUpClass(cls):
        cls.tree = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        cls.addClassCleanup(shutil.rmtree, cls.tree)
        (cls.tree / "tools/lib").mkdir(parents=True)
        for name in ("tools/release", "tools/lib/common.sh"):
            shutil.copy(RUNFILES / name, cls.tree / name)
        for command in (["init", "--quiet"], ["add", "."],
                        ["-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "--quiet", "--message=t"]):
            subprocess.run(["git", *command], cwd=cls.tree, check=True)

    def said(self, *arguments):
        done = subprocess.run(
            [self.tree / "tools/release", *arguments], stderr=subprocess.PIPE, text=True, check=False, cwd="/")
        self.assertNotEqual(done.returncode, 0, arguments)
        return done.stderr

    def test_refuses_what_is_no_semantic_version(self):
        for version in ("1", "1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3-a..b", "1.2.3+", "1.2.3 ", "a/b"):
            self.assertIn("is not a semantic version", self.said(version), version)
        for version in ("1.2.3", "0.0.0-dev", "10.20.30-rc.1+build.5", "1.0.0-0a.-"):
            self.assertIn("there is no chart", self.said(version), version)

    def test_shows_its_usage(self):
        for arguments in ([], ["1.2.3", "1.2.4"], ["1.2.3", "--bogus"], ["--allow_dirty"]):
            self.assertIn("tools/release VERSION [--allow_dirty]", self.said(*arguments), arguments)

    def test_refuses_changes_that_are_not_committed(self):
        change = self.tree / "change"
        change.write_text("x", encoding="utf-8")
        self.addCleanup(change.unlink)
        self.assertIn("not committed", self.said("1.2.3"))
        self.assertIn("there is no chart", self.said("1.2.3", "--allow_dirty"))


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
                    reference["referenceLocator"], "^pkg:deb/debian/([a-z0-9.-]|%2B)+@[^@/ ]+[?]arch=[a-z0-9]+&distro=debian-12$")
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

    def test_checksum_in_the_list_is_that_of_the_image(self):
        image = self.document["packages"][0]
        printed = subprocess.run(
            ["sha256sum", self.dist / image["packageFileName"]], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(re.match("[0-9a-f]+", printed).group(), image["checksums"][0]["checksumValue"])


if __name__ == "__main__":
    skip_unless_root()
    unittest.main(verbosity=2, warnings="ignore")
