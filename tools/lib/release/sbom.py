#!/usr/bin/env python3
"""Prints what a release is made of, as an SPDX 2.3 document in JSON.

Usage: sbom.py PROGRAMS BASE VERSION IMAGE

It lists the image, our programs (the folder PROGRAMS), the Debian packages in the image's base (the archive BASE), and the
libraries that are compiled into the programs. Licenses are not stated: NOASSERTION. The same input and SOURCE_DATE_EPOCH give the
same document.
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

# Debian packages of this machine whose code is in our programs: static libraries, and headers with code.
COMPILED_IN = ("librocksdb-dev", "libboost1.81-dev", "libcli11-dev", "nlohmann-json3-dev")
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
    """The fields of each package that the base has."""
    with tarfile.open(base) as archive:
        status = archive.extractfile("./var/lib/dpkg/status").read().decode()
    for paragraph in status.strip().split("\n\n"):
        yield dict(re.findall(r"^(\S+): (.*)$", paragraph, re.MULTILINE))


def installed_package(name):
    fields = subprocess.run(
        ["dpkg-query", "-W", "-f", "Package: ${Package}\nVersion: ${Version}\nArchitecture: ${Architecture}\nSource: ${source:Package}\n",
         name], stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(re.findall(r"^(\S+): (.*)$", fields, re.MULTILINE))


def spdx_id(kind, name):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def debian_element(kind, fields, **more):
    name, version = fields["Package"], fields["Version"]
    where = f"{urllib.parse.quote(name)}@{urllib.parse.quote(version, safe='')}"
    return {
        "SPDXID": spdx_id(kind, name), "name": name, "versionInfo": version, **UNSTATED, **more,
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
    parts += [debian_element("Debian", fields) for fields in debian_packages(base)]
    parts += [debian_element("CompiledIn", installed_package(name), comment="compiled into the programs")
              for name in COMPILED_IN]
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
