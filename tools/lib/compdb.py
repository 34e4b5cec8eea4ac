"""Turns `bazel aquery --output=jsonproto` of CppCompile actions (stdin) into compile_commands.json (stdout).

Usage: compdb.py EXECUTION_ROOT
Sources that a room joins (tools/bazel/room.bzl) get a command each, as if they were compiled alone.
"""

import json
import os
import re
import sys


def main():
    root = sys.argv[1]
    commands = []
    for action in json.load(sys.stdin).get("actions", []):
        arguments = action["arguments"]
        if "-c" not in arguments:
            continue
        at = arguments.index("-c") + 1
        sources = [arguments[at]]
        if sources[0].endswith(".cc") and "_unit" in sources[0]:
            with open(os.path.join(root, sources[0])) as unit:
                sources = re.findall(r'^#line 1 "([^"]+)"$', unit.read(), re.M)
        for source in sources:
            if not source.startswith(("external/", "bazel-out/")):
                alone = arguments[:at] + [source] + arguments[at + 1 :]
                commands.append({"directory": root, "file": source, "arguments": alone})
    json.dump(commands, sys.stdout, indent=1)


main()
