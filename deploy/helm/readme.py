#!/usr/bin/python3
"""Writes escapement/README.md from the comments of escapement/values.yaml. A test compares the two."""
import json
import pathlib
import re

import yaml

CHART = pathlib.Path(__file__).resolve().parent / "escapement"

HEAD = """# Chart of Escapement

Runs the platform in Kubernetes: `docs/operations/kubernetes.md` of the repository has the steps.

```sh
helm install escapement deploy/helm/escapement --set image.repository=registry.example/escapement --set insecure=true
```

`examples/production.yaml` has the values of a whole production installation.

This page is made from `values.yaml` by `deploy/helm/readme.py`: change the comments there. `values.schema.json` refuses unknown names.

| value | default | meaning |
|---|---|---|
"""


def comments(text):
    """The comment above each key of `text`, by its path."""
    found, path, lines = {}, [], []
    for line in text.splitlines():
        if match := re.match(r"( *)# ?(.*)", line):
            lines.append(match[2])
        elif match := re.match(r"( *)([A-Za-z]\w*):", line):
            path = path[:len(match[1]) // 2] + [match[2]]
            if lines:
                found[tuple(path)] = " ".join(lines)
            lines = []
        else:
            lines = []
    return found


def values_of(values, said, path=()):
    """(path, value) of each value that stands alone. A map none of whose keys has a comment is one value."""
    for name, value in values.items():
        here = (*path, name)
        if isinstance(value, dict) and any((*here, key) in said for key in value):
            yield here, None
            yield from values_of(value, said, here)
        else:
            yield here, value


def readme(text):
    said = comments(text)
    rows = []
    for path, value in values_of(yaml.safe_load(text), said):
        default = "" if value is None else f"`{json.dumps(value)}`"
        rows.append(f"| `{'.'.join(path)}` | {default} | {said.get(path, '')} |\n".replace("|  |", "| |"))
    return HEAD + "".join(rows)


def main():
    (CHART / "README.md").write_text(readme((CHART / "values.yaml").read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
