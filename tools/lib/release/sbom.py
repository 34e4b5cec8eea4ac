#!/usr/bin/env python3
"""Prints what a release is made of, as an SPDX 2.3 document in JSON.

Usage: sbom.py PROGRAMS BASE VERSION IMAGE

It lists the image, our programs (the folder PROGRAMS), the base of the image (the archive BASE) and the Debian packages in it, and
what is compiled into the programs: libraries of Debian, and the npm packages of the page. Declared licenses are those of Debian's
copyright files (licenses.py) and of web/package-lock.json, and NOASSERTION where these are unclear. The same input and
SOURCE_DATE_EPOCH give the same document.
"""
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import urllib.parse
import uuid

import licenses

# Debian packages of this machine whose code is in our programs: static libraries, headers with code, and protocols. Headers of
# packages in the base are named there.
COMPILED_IN = ("librocksdb-dev", "libboost1.81-dev", "libcli11-dev", "nlohmann-json3-dev", "golang-github-gogo-googleapis-dev",
               "grpc-proto")
# The npm packages that the page at /ui has; esbuild, which joins them, leaves none of its own.
PAGE_LOCK = pathlib.Path(__file__).absolute().parents[3] / "web/package-lock.json"
IN_PAGE = ("htm", "js-yaml", "preact", "uplot")
UNSTATED = {
    "downloadLocation": "NOASSERTION",
    "filesAnalyzed": False,
    "licenseConcluded": "NOASSERTION",
    "licenseDeclared": "NOASSERTION",
    "copyrightText": "NOASSERTION",
}


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def debian_packages(base):
    """The fields of each package that the base has, and the text of its copyright file ("" if there is none)."""
    copyrights = {}
    with tarfile.open(base) as archive:
        for member in archive:
            match = re.fullmatch(r"\./usr/share/doc/([^/]+)/copyright", member.name)
            if match and member.isfile():
                copyrights[match[1]] = archive.extractfile(member).read().decode(errors="replace")
        status = archive.extractfile("./var/lib/dpkg/status").read().decode()
    for paragraph in status.strip().split("\n\n"):
        fields = dict(re.findall(r"^(\S+): (.*)$", paragraph, re.MULTILINE))
        # The folder of libgcc-s1 and libstdc++6 is a link to that of this package, and the base has no links there.
        shared = "gcc-12-base" if fields.get("Source", "").startswith("gcc-12") else ""
        yield fields, copyrights.get(fields["Package"], copyrights.get(shared, ""))


def installed_package(name):
    fields = subprocess.run(
        ["dpkg-query", "-W", "-f", "Package: ${Package}\nVersion: ${Version}\nArchitecture: ${Architecture}\nSource: ${source:Package}\n",
         name], stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(re.findall(r"^(\S+): (.*)$", fields, re.MULTILINE))


def spdx_id(kind, name):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def licensed(copyright_file):
    """The fields of an element about its license."""
    declared, names = licenses.stated(copyright_file)
    said = "names " + "; ".join(names) if names else "is prose" if copyright_file else "is missing"
    return {"licenseDeclared": declared,
            "licenseComments": f"The copyright file of Debian's source package, without debian/*, {said}"}


def npm_elements():
    packages = json.loads(PAGE_LOCK.read_text(encoding="utf-8"))["packages"]
    for name in IN_PAGE:
        package = packages[f"node_modules/{name}"]
        license_ = package.get("license", "")
        yield {
            "SPDXID": spdx_id("Npm", name), "name": name, "versionInfo": package["version"], **UNSTATED,
            "licenseDeclared": license_ if license_ in licenses.NAMES.values() else licenses.NOASSERTION,
            "comment": "in the page, which is compiled into the master",
            "externalRefs": [{
                "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                "referenceLocator": f"pkg:npm/{name}@{package['version']}",
            }],
        }


def debian_element(kind, fields, copyright_file, **more):
    name, version = fields["Package"], fields["Version"]
    where = f"{urllib.parse.quote(name)}@{urllib.parse.quote(version, safe='')}"
    return {
        "SPDXID": spdx_id(kind, name), "name": name, "versionInfo": version, **UNSTATED, **licensed(copyright_file), **more,
        "sourceInfo": "source package " + fields.get("Source", name),
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
            "referenceLocator": f"pkg:deb/debian/{where}?arch={fields['Architecture']}&distro=debian-12",
        }],
    }


def document(programs, base, version, image):
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    whole = {
        "SPDXID": "SPDXRef-Image", "name": "escapement", "versionInfo": version, **UNSTATED,
        "packageFileName": os.path.basename(image), "primaryPackagePurpose": "CONTAINER",
        "checksums": [{"algorithm": "SHA256", "checksumValue": sha256(image)}],
    }
    parts = [{
        "SPDXID": spdx_id("Program", program.name), "name": program.name, "versionInfo": version, **UNSTATED,
        "packageFileName": f"/usr/bin/{program.name}", "primaryPackagePurpose": "APPLICATION",
        "checksums": [{"algorithm": "SHA256", "checksumValue": sha256(program)}],
    } for program in sorted(pathlib.Path(programs).iterdir())]
    parts.append({
        "SPDXID": "SPDXRef-Base", "name": "escapement-base", "versionInfo": version, **UNSTATED,
        "comment": "the root folder that the image is based on", "packageFileName": os.path.basename(base),
        "checksums": [{"algorithm": "SHA256", "checksumValue": sha256(base)}],
    })
    parts += [debian_element("Debian", fields, text) for fields, text in debian_packages(base)]
    parts += [debian_element("CompiledIn", installed_package(name),
                             pathlib.Path(f"/usr/share/doc/{name}/copyright").read_text(encoding="utf-8"),
                             comment="compiled into the programs")
              for name in COMPILED_IN]
    parts += npm_elements()
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"escapement-{version}",
        # Unique to these bytes; a URN needs no host.
        "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, version + sha256(image))}",
        "creationInfo": {
            "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": [f"Tool: escapement-release-{version}"],
        },
        "packages": [whole, *parts],
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-Image"},
            *({"spdxElementId": "SPDXRef-Image", "relationshipType": "CONTAINS", "relatedSpdxElement": part["SPDXID"]}
              for part in parts),
        ],
    }


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    json.dump(document(*sys.argv[1:]), sys.stdout, indent=1)
    print()
