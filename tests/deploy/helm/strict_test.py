"""All rendered objects fit Kubernetes' OpenAPI and Kubernetes' own types, without an unknown field."""
import copy
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

import yaml

import chart
from chart import CASES, MONITORING, SECURE, case, find, merged, pods_of

# These take any name as a key.
MAPS = {"annotations", "data", "labels", "matchLabels", "nodeSelector", "selector", "limits", "requests"}


def errors_of(objects):
    done = subprocess.run(["/usr/bin/node", chart.ROOT / "tests/deploy/helm/validate.mjs", chart.NODE_MODULES], input=json.dumps(objects),
                          capture_output=True, text=True, timeout=chart.DEADLINE, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def maps_in(value, path=()):
    if isinstance(value, dict):
        yield path
        members = value.items()
    else:
        members = enumerate(value) if isinstance(value, list) else ()
    for name, inner in members:
        yield from maps_in(inner, (*path, name))


def at(value, path):
    for name in path:
        value = value[name]
    return value


def folder():
    return tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))


def chart_with(files):
    """A copy of the chart in which these files are rules and dashboards: path below files/ → text."""
    copied = pathlib.Path(folder()) / "escapement"
    shutil.copytree(chart.CHART, copied, ignore=shutil.ignore_patterns("files"))
    for path, text in files.items():
        (copied / "files" / path).parent.mkdir(parents=True, exist_ok=True)
        (copied / "files" / path).write_text(text, encoding="utf-8")
    return copied


class StrictTest(unittest.TestCase):
    def test_every_object_fits_the_openapi(self):
        for name in CASES:
            self.assertEqual(errors_of(case(name)), [], name)

    def test_an_unknown_field_is_found_wherever_it_is(self):
        changed = []
        for each in case("replicated everything on") + case("standalone everything on"):
            for path in maps_in(each):
                if path[-1:] and path[-1] in MAPS or path[-1:] == ("selector",):
                    # The selector of a Deployment is no map of labels.
                    if not (path[-1] == "selector" and "matchLabels" in at(each, path)):
                        continue
                broken = copy.deepcopy(each)
                at(broken, path)["surplus"] = "x"
                broken["metadata"]["name"] = f"{'.'.join(map(str, path))}#{len(changed)}"
                changed.append(broken)
        self.assertGreater(len(changed), 500)
        errors = errors_of(changed)
        for each in changed:
            self.assertTrue([error for error in errors if f"{each['metadata']['name']}:" in error], each["metadata"]["name"])

    def test_a_wrong_type_is_found(self):
        objects = case("replicated secure")
        find(objects, "StatefulSet", "-store")["spec"]["replicas"] = "three"
        find(objects, "Service", "it-escapement")["spec"]["ports"] = {}
        del find(objects, "Deployment", "-master")["spec"]["template"]
        self.assertEqual(len(errors_of(objects)), 3)

    def test_kubernetes_own_types_lose_nothing(self):
        """kubectl decodes objects with pods into the types of its version. What they do not have would be gone."""
        for name in CASES:
            for each in case(name):
                pod = next((pod for _, pod in pods_of([each])), None)
                if pod is None:
                    continue
                containers = pod["spec"]["containers"]
                done = chart.run("kubectl", "set", "image", "--local", "--filename", "-", "--output", "json",
                                 f"{containers[0]['name']}=changed", text=json.dumps(each))
                self.assertEqual(done.returncode, 0, done.stderr)
                containers[0]["image"] = "changed"
                self.assert_within(each, json.loads(done.stdout), f"{name}: {each['metadata']['name']}")

    def assert_within(self, part, whole, path):
        if isinstance(part, dict):
            for key, value in part.items():
                if value in ({}, [], None):
                    continue  # not written again
                self.assertIn(key, whole, path)
                self.assert_within(value, whole[key], f"{path}.{key}")
        elif isinstance(part, list):
            self.assertEqual(len(part), len(whole), path)
            for i, value in enumerate(part):
                self.assert_within(value, whole[i], f"{path}.{i}")
        else:
            self.assertEqual(str(part), str(whole), path)

    def test_kubectl_reads_all_objects(self):
        for name in CASES:
            there = folder()
            pathlib.Path(there, "all.yaml").write_text(yaml.safe_dump_all(case(name)), encoding="utf-8")
            pathlib.Path(there, "kustomization.yaml").write_text("resources: [all.yaml]\n", encoding="utf-8")
            done = chart.run("kubectl", "kustomize", there)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(list(yaml.safe_load_all(done.stdout))), len(case(name)))


RULES = """# A comment.
groups:
  - name: store
    rules:
      - alert: StoreDown
        expr: up{component="store"} == 0
        for: 1m
        annotations:
          summary: 'store {{ $labels.pod }} is down: {{ $value | printf "%.0f" }}'
"""
DASHBOARD = '{"title": "Store", "panels": [{"legendFormat": "{{pod}}"}]}\n'


class FilesTest(unittest.TestCase):
    def test_rules_and_dashboards_come_out_literally(self):
        with_files = chart_with({"prometheus/store_rules.yaml": RULES, "prometheus/store_test.yaml": "rule_files: [store.yaml]\n",
                                 "grafana/store.json": DASHBOARD})
        objects = chart.render(merged(SECURE, {"metrics": {"dashboards": {"enabled": True}}}), MONITORING, chart=with_files)
        self.assertEqual(errors_of(objects), [])
        rules = [each for each in objects if each["kind"] == "PrometheusRule"]
        self.assertEqual([rule["metadata"]["name"] for rule in rules], ["it-escapement-store-rules"])
        self.assertEqual(rules[0]["spec"], yaml.safe_load(RULES))
        dashboard = find(objects, "ConfigMap", "-store-dashboard")
        self.assertEqual(dashboard["data"], {"store.json": DASHBOARD})
        self.assertEqual(dashboard["metadata"]["labels"]["grafana_dashboard"], "1")
        without = chart.render(merged(SECURE, {"metrics": {"rules": {"enabled": False}}}), MONITORING, chart=with_files)
        self.assertIsNone(find(without, "PrometheusRule", ""))
        self.assertIsNone(find(without, "ConfigMap", "-store-dashboard"))

    def test_a_package_has_rules_and_dashboards_and_renders_the_same(self):
        there = folder()
        done = chart.run("helm", "package", str(chart.CHART), "--destination", there)
        self.assertEqual(done.returncode, 0, done.stderr)
        package = next(pathlib.Path(there).glob("*.tgz"))
        for name in ("standalone everything on", "replicated everything on"):
            self.assertEqual(chart.render(*CASES[name], chart=package), case(name))
        with tarfile.open(package) as files:
            linked = [path for path in files.getnames() if "/files/" in path]
            page = files.extractfile("escapement/README.md").read().decode("utf-8")
            self.assertEqual(yaml.safe_load(files.extractfile("escapement/examples/production.yaml")), chart.PRODUCTION)
        self.assertNotIn("](..", page, "a link that leads out of the package")
        self.assertEqual([path for path in linked if not path.endswith((".yaml", ".json")) or path.count("/") != 3], [])

    def test_the_chart_has_the_files_of_deploy(self):
        objects = case("standalone everything on")
        files = chart.CHART.parents[1]
        rules = [path for path in files.glob("prometheus/*.yaml") if "groups" in (yaml.safe_load(path.read_text()) or {})]
        self.assertEqual(len([each for each in objects if each["kind"] == "PrometheusRule"]), len(rules))
        dashboards = [each for each in objects if each["metadata"]["name"].endswith("-dashboard")]
        self.assertEqual(len(dashboards), len(list(files.glob("grafana/*.json"))))


if __name__ == "__main__":
    unittest.main()
