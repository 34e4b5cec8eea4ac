#!/usr/bin/env python3
"""Writes page_files.cc: embed_page.py OUTPUT PATH=FILE...

PATH is the name under which the page asks for the file. `VERSION` in index.html becomes the version of all files. The modules
of Preact name each other without a path, which a browser cannot resolve under the page's Content-Security-Policy; here
they get one.
"""
import gzip
import hashlib
import sys

TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def content(path: str, file: str) -> bytes:
    with open(file, "rb") as source:
        data = source.read()
    if path.startswith("lib/"):
        data = data.replace(b'from"preact"', b'from"./preact.js"')
        lines = [line for line in data.splitlines(keepends=True) if not line.startswith(b"//# sourceMappingURL")]
        data = b"".join(lines)
    return data


def main() -> None:
    output, *arguments = sys.argv[1:]
    files = {}
    for argument in arguments:
        path, _, file = argument.partition("=")
        files[path] = content(path, file)
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.encode() + b"\0" + hashlib.sha256(files[path]).digest())
    version = digest.hexdigest()[:16]
    files["index.html"] = files["index.html"].replace(b"VERSION", version.encode())

    with open(output, "w", encoding="utf-8") as out:
        out.write('#include "services/master/page/page_files.h"\n\nnamespace escapement::master {\nnamespace {\n\n')
        for number, path in enumerate(sorted(files)):
            packed = gzip.compress(files[path], 9, mtime=0)
            out.write(f"constexpr unsigned char kFile{number}[] = {{{','.join(map(str, packed))}}};\n")
        out.write("\ntemplate <size_t n>\nabsl::string_view View(const unsigned char (&bytes)[n]) {\n"
                  "  return {reinterpret_cast<const char*>(bytes), n};\n}\n\n}  // namespace\n\n"
                  "const std::vector<PageFile>& PageFiles() {\n"
                  "  static const auto* const files = new std::vector<PageFile>{\n")
        for number, path in enumerate(sorted(files)):
            kind = TYPES[path.rpartition(".")[2]]
            out.write(f'      {{"{path}", "{kind}", View(kFile{number})}},\n')
        out.write(f'  }};\n  return *files;\n}}\n\nabsl::string_view PageVersion() {{ return "{version}"; }}\n\n'
                  "}  // namespace escapement::master\n")


main()
