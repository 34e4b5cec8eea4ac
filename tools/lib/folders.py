"""Prints the order of the C++ folders: each may include only folders of the lines above it. Exits 1 if there is a circle.

The order follows from the #include lines of all sources but tests. Bazel refuses circles between rooms as well, but only
between their BUILD files; this finds the includes that would tie one, and shows where a folder stands.
"""

import collections
import os
import re
import subprocess
import sys


def includes():
    """For each folder, the folders that it includes, each with one include as 'file: header'."""
    names = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.h", "*.cc"]
    files = [name for name in subprocess.run(names, capture_output=True, text=True, check=True).stdout.split() if os.path.exists(name)]
    known = set(files)
    edges = collections.defaultdict(dict)
    for name in files:
        folder = os.path.dirname(name)
        if name.endswith("_test.cc"):
            continue
        edges[folder]
        with open(name, encoding="utf-8") as source:
            for header in re.findall(r'^#include "([^"]+)"', source.read(), re.M):
                if header in known and os.path.dirname(header) != folder:
                    edges[folder].setdefault(os.path.dirname(header), f"{name}: {header}")
    return edges


def main():
    edges = includes()
    left = dict(edges)
    number = 0
    while left:
        ready = sorted(folder for folder, uses in left.items() if not any(use in left for use in uses))
        if not ready:
            break
        number += 1
        print(f"{number:2} {' '.join(ready)}")
        for folder in ready:
            del left[folder]
    # A folder that nobody left includes is above the circles, not in one.
    while above := [f for f in left if not any(f in uses for g, uses in left.items())]:
        for folder in above:
            del left[folder]
    for folder, uses in sorted(left.items()):
        for use, where in sorted(uses.items()):
            if use in left:
                print(f"circle: {folder} -> {use} ({where})")
    return 1 if left else 0


sys.exit(main())
