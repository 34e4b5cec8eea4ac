"""SPDX expressions for the licenses that Debian's copyright files state, where they are unambiguous.

A copyright file in Debian's format (DEP-5) names the license of each group of files of the source package. A short name that says
exactly one license becomes its SPDX id. If any group has another name, or the file is prose, the answer is NOASSERTION: nobody
should read half of an answer as the whole.
"""
import re

NOASSERTION = "NOASSERTION"
# Short names of Debian's format, in small letters, that say one license. "MIT" and the many kinds of BSD do not.
NAMES = {
    "0bsd": "0BSD", "apache-2": "Apache-2.0", "apache-2.0": "Apache-2.0", "artistic-2.0": "Artistic-2.0",
    "bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause", "bsd-4-clause-uc": "BSD-4-Clause-UC", "bsl-1.0": "BSL-1.0",
    "cc-by-3.0": "CC-BY-3.0", "cc-by-4.0": "CC-BY-4.0", "cc0": "CC0-1.0", "cc0-1.0": "CC0-1.0", "curl": "curl", "expat": "MIT",
    "isc": "ISC", "mpl-1.1": "MPL-1.1", "mpl-2.0": "MPL-2.0", "openldap-2.8": "OLDAP-2.8", "oldap-2.8": "OLDAP-2.8",
    "openssl": "OpenSSL", "postgresql": "PostgreSQL", "unlicense": "Unlicense", "zlib": "Zlib",
    "apache-2.0 with llvm exception": "Apache-2.0 WITH LLVM-exception",
}
# The text that says that "MIT" is the license which SPDX calls so. There are others of this name.
MIT = """permission is hereby granted free of charge to any person obtaining a copy of this software and associated documentation files
the software to deal in the software without restriction including without limitation the rights to use copy modify merge publish
distribute sublicense and or sell copies of the software and to permit persons to whom the software is furnished to do so subject to
the following conditions the above copyright notice and this permission notice shall be included in all copies or substantial portions
of the software the software is provided as is without warranty of any kind express or implied including but not limited to the
warranties of merchantability fitness for a particular purpose and noninfringement in no event shall the authors or copyright holders
be liable for any claim damages or other liability whether in an action of contract tort or otherwise arising from out of or in
connection with the software or the use or other dealings in the software""".split()
GNU = re.compile(r"(a?gpl|lgpl|gfdl)-([123](?:\.[0-9])?)(\+?)(?: with libtool exception)?")
VERSIONS = {"GPL": ("1.0", "2.0", "3.0"), "LGPL": ("2.0", "2.1", "3.0"), "AGPL": ("3.0",), "GFDL": ("1.1", "1.2", "1.3")}


def spdx_of_name(name, texts):
    """The SPDX id of one short name; None if it does not say one license. `texts`: short name → the text that the file has."""
    name = " ".join(name.lower().split())
    if name == "mit":
        return "MIT" if re.findall("[a-z]+", texts.get("mit", "").lower()) == MIT else None
    if name in NAMES:
        return NAMES[name]
    match = GNU.fullmatch(name)
    if not match:
        return None
    family, version = match[1].upper(), match[2] if "." in match[2] else match[2] + ".0"
    if version not in VERSIONS[family]:
        return None
    exception = " WITH Libtool-exception" if name.endswith("exception") else ""
    return f"{family}-{version}-{'or-later' if match[3] else 'only'}{exception}"


def spdx_of_expression(text, texts):
    """SPDX of an expression such as "GPL-2+ or Expat and ISC": "and" binds closer, as in SPDX. None if it is unclear."""
    if "," in text:  # a comma changes the order
        return None
    alternatives = set()
    for alternative in re.split(r"\s+or\s+", text.strip(), flags=re.IGNORECASE):
        ids = [spdx_of_name(name, texts) for name in re.split(r"\s+and\s+", alternative, flags=re.IGNORECASE)]
        if None in ids:
            return None
        alternatives.add(" AND ".join(sorted(set(ids))))
    return " OR ".join(sorted(alternatives))


def paragraphs(text):
    """The paragraphs of a file in Debian's format: name of the field in small letters → its text."""
    for paragraph in re.split(r"\n[ \t]*\n", text.replace("\r", "").strip()):
        fields = {}
        for line in paragraph.splitlines():
            name, colon, value = line.partition(":")
            if line[:1] not in (" ", "\t", "#") and colon:
                field = name.strip().lower()
                fields[field] = value.strip()
            elif line[:1] in (" ", "\t") and fields:
                fields[field] += "\n" + line.strip()
        yield fields


def stated(copyright_file):
    """What the file says of the source package without its packaging (debian/*): SPDX, and the names in the file."""
    if not re.match(r"\s*Format(-Specification)?:", copyright_file):
        return NOASSERTION, []
    texts, names = {}, set()
    for fields in paragraphs(copyright_file):
        name, _, text = fields.get("license", "").partition("\n")
        if text:
            texts[name.strip().lower()] = text
        files = fields.get("files", "").split()
        if files and not all(pattern.startswith("debian/") for pattern in files):
            names.add(" ".join(name.split()))
    parts = {spdx_of_expression(name, texts) for name in names}
    if not parts or None in parts:
        return NOASSERTION, sorted(names)
    return " AND ".join(f"({part})" if " OR " in part and len(parts) > 1 else part for part in sorted(parts)), sorted(names)
