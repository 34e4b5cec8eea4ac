#!/usr/bin/env python3
"""Writes page_files.cc: embed_page.py OUTPUT FOLDER.

FOLDER has the files of the page. `VERSION` in index.html becomes the version of all files.
"""
import gzip
import hashlib
import pathlib
import re
import sys

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}


def main() -> None:
    output, folder = sys.argv[1:]
    files = {path.name: path.read_bytes() for path in sorted(pathlib.Path(folder).iterdir())}
    # htm drops whitespace with a newline, so the indents of its templates only weigh.
    files["app.js"] = re.sub(rb"\n +", b"\n", files["app.js"])
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    version = digest.hexdigest()[:16]
    files["index.html"] = files["index.html"].replace(b"VERSION", version.encode())

    with open(output, "w", encoding="utf-8") as out:
        out.write('#include "services/master/page/page_door.h"\n\nnamespace escapement::master {\nnamespace {\n\n')
        for number, content in enumerate(files.values()):
            packed = gzip.compress(content, 9, mtime=0)
            out.write(f"constexpr unsigned char kFile{number}[] = {{{','.join(map(str, packed))}}};\n")
        out.write("\ntemplate <size_t n>\nabsl::string_view View(const unsigned char (&bytes)[n]) {\n"
                  "  return {reinterpret_cast<const char*>(bytes), n};\n}\n\n}  // namespace\n\n"
                  "const std::vector<PageFile>& PageFiles() {\n"
                  "  static const auto* const files = new std::vector<PageFile>{\n")
        for number, name in enumerate(files):
            out.write(f'      {{"{name}", "{TYPES[pathlib.Path(name).suffix]}", View(kFile{number})}},\n')
        out.write(f'  }};\n  return *files;\n}}\n\nabsl::string_view PageVersion() {{ return "{version}"; }}\n\n'
                  "}  // namespace escapement::master\n")


main()
