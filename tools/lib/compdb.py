"""Turns `bazel aquery --output=jsonproto` of CppCompile actions (stdin) into compile_commands.json (stdout).

Usage: compdb.py EXECUTION_ROOT
"""

import json
import sys


def main():
    root = sys.argv[1]
    commands = []
    for action in json.load(sys.stdin).get("actions", []):
        arguments = action["arguments"]
        source = arguments[arguments.index("-c") + 1] if "-c" in arguments else ""
        if source and not source.startswith(("external/", "bazel-out/")):
            commands.append({"directory": root, "file": source, "arguments": arguments})
    json.dump(commands, sys.stdout, indent=1)


main()
