"""Names, labels and versions that users choose: Kubernetes takes what the chart makes of them, or the chart refuses them."""
import json
import os
import pathlib
import re
import shutil
import tempfile
import unittest

import chart
from chart import CASES, MONITORING, REPLICATED, SECURE, case, find, merged, pods_of
from strict_test import errors_of

LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?")
KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
IMAGE = re.compile(r"[a-z0-9][-._/a-z0-9]*(:[0-9]+)?[-._/a-z0-9]*:[A-Za-z0-9_][-.A-Za-z0-9_]{0,127}")
OURS = {f"app.kubernetes.io/{name}" for name in ("name", "instance", "component", "part-of", "version", "managed-by")} | {"helm.sh/chart"}


def with_version(version):
    """A copy of the chart as `tools/release VERSION` makes it."""
    copied = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))) / "escapement"
    shutil.copytree(chart.CHART, copied, ignore=shutil.ignore_patterns("files"))
    facts = (copied / "Chart.yaml").read_text(encoding="utf-8")
    (copied / "Chart.yaml").write_text(re.sub(r"(?m)^(version|appVersion): .*", rf"\1: {version}", facts), encoding="utf-8")
    return copied


def maps_named(value, name):
    """All maps with this name in an object."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        if key == name and isinstance(inner, dict):
            yield inner
        yield from maps_named(inner, name)


class NamesTest(unittest.TestCase):
    def assert_legal(self, objects):
        self.assertEqual(errors_of(objects), [])
        for each in objects:
            name = each["metadata"]["name"]
            with self.subTest(each["kind"], name=name):
                self.assertRegex(name, rf"^{(DNS_LABEL if each['kind'] == 'Service' else SUBDOMAIN).pattern}$")
                if each["kind"] == "StatefulSet":
                    self.assertLessEqual(len(name), 52)  # it is a label of its pods, with a hash behind it
                for labels in [*maps_named(each, "labels"), *maps_named(each, "matchLabels")]:
                    for key, value in labels.items():
                        self.assertRegex(key, rf"^{KEY.pattern}$")
                        self.assertIsInstance(value, str, key)
                        self.assertRegex(value, rf"^{LABEL.pattern}$", key)
                if each["kind"] == "Service":
                    self.assertTrue(all(isinstance(value, str) for value in each["spec"]["selector"].values()))
        for _, pod in pods_of(objects):
            for container in pod["spec"]["containers"]:
                self.assertRegex(container["image"], rf"^{IMAGE.pattern}$")

    def test_names_of_releases_become_names_of_objects(self):
        for release, prefix in {"my.rel": "my-rel-escapement", "1rel": "escapement-1rel", "1e3": "escapement-1e3", "123": "escapement-123",
                                "true": "true-escapement", "null": "null-escapement", "escapement.1": "escapement-1",
                                "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.a": "a-b-c-d-e-f-g-h-i-j-k-l-m-n-o-p-q-r-s-t"}.items():
            objects = chart.render(merged(REPLICATED, SECURE), MONITORING, release=release)
            self.assert_legal(objects)
            self.assertTrue(find(objects, "ConfigMap", prefix), release)
            for each in objects:
                self.assertEqual(each["metadata"]["labels"]["app.kubernetes.io/instance"], release)

    def test_names_that_look_like_other_types_stay_texts(self):
        odd = {"fullnameOverride": "true", "nameOverride": "1e3", "image": {"pullSecrets": ["123"]}, "commonLabels": {"on": "true"},
               "pod": {"priorityClassName": "1e3"}, "serviceAccount": {"name": "123"}, "standalone": {"persistence": {"storageClass": "1e3"}},
               "ingress": {"enabled": True, "hosts": ["1"], "className": "123", "tlsSecret": "1e3"}}
        self.assert_legal(chart.render(merged(SECURE, odd)))
        issuer = {"tls": {"mode": "certManager", "existingSecret": "", "certManager": {"issuerName": "123"}}}
        self.assert_legal(chart.render(merged(SECURE, odd, issuer)))

    def test_a_version_with_a_build_becomes_a_label_and_a_tag(self):
        for version, label, tag in (("0.1.0+1a2b", "0.1.0_1a2b", "0.1.0-1a2b"), ("1.2.3-rc.1+b.7", "1.2.3-rc.1_b.7", "1.2.3-rc.1-b.7"),
                                    ("1.2.3+" + "x" * 70, "1.2.3_" + "x" * 57, "1.2.3-" + "x" * 70)):
            objects = chart.render(merged(REPLICATED, SECURE), MONITORING, chart=with_version(version))
            self.assert_legal(objects)
            self.assertEqual({each["metadata"]["labels"]["app.kubernetes.io/version"] for each in objects if each["kind"] != "Pod"}, {label})
            self.assertEqual({container["image"] for _, pod in pods_of(objects) for container in pod["spec"]["containers"]},
                             {f"escapement:{tag}"})

    def test_the_tag_of_the_chart_is_that_of_the_image_of_a_release(self):
        build = (chart.ROOT / "tools/lib/release/image").read_text(encoding="utf-8")
        self.assertIn("escapement:${version/+/-}", build)  # what the test above expects

    def test_a_newer_chart_restarts_nothing_that_it_does_not_change(self):
        fixed = {"image": {"tag": "1.0.0"}}
        for values in (merged(REPLICATED, SECURE, fixed), merged(SECURE, fixed)):
            before, after = ([each["spec"]["template"] for each in chart.render(values, chart=with_version(version))
                              if each["kind"] in ("Deployment", "StatefulSet")] for version in ("1.0.0", "1.0.1"))
            self.assertEqual(before, after)

    def test_labels_for_all_are_on_all_objects_and_pods(self):
        for name in ("standalone everything on", "replicated everything on"):
            for each in case(name):
                if each["metadata"]["name"] not in ("extra", "it-escapement-more"):
                    self.assertEqual(each["metadata"]["labels"].get("team"), "ops", each["metadata"]["name"])
            for pod_name, pod in pods_of(case(name)):
                self.assertEqual((pod["metadata"]["labels"].get("team"), pod["metadata"]["labels"].get("c")), ("ops", "d"), pod_name)

    def test_a_label_of_a_pod_goes_before_the_label_for_all(self):
        done = chart.template(merged(SECURE, {"commonLabels": {"team": "ops"}, "pod": {"labels": {"team": "jobs"}}}))
        self.assertEqual(done.returncode, 0, done.stderr)
        # A parser of YAML would hide a key that comes twice.
        for text in done.stdout.split("\n---\n"):
            self.assertLessEqual(len(re.findall(r"^    team: ", text, re.MULTILINE)), 1)
        pods = dict(pods_of([each for each in chart.yaml.safe_load_all(done.stdout) if each]))
        self.assertEqual(pods["it-escapement-standalone"]["metadata"]["labels"]["team"], "jobs")

    def test_no_key_comes_twice(self):
        class Strict(chart.yaml.SafeLoader):
            def construct_mapping(self, node, deep=False):
                keys = [key.value for key, _ in node.value]
                assert len(keys) == len(set(keys)), keys
                return super().construct_mapping(node, deep)

        for name, (values, knows) in CASES.items():
            with self.subTest(name):
                list(chart.yaml.load_all(chart.template(values, knows).stdout, Strict))

    def test_keys_of_the_chart_are_refused(self):
        for where in ("commonLabels", "pod.labels", "service.labels", "standalone.pod.labels", "handler.pod.labels", "backup.pod.labels", "test.pod.labels"):
            for key in OURS:
                self.assert_refused(where, {key: "x"}, f"{where} must not have {key}")
        for where in ("pod.annotations", "store.pod.annotations", "test.pod.annotations"):
            for key in ("checksum/config", "helm.sh/hook"):
                self.assert_refused(where, {key: "x"}, f"{where} must not have {key}")

    def test_what_is_no_label_is_refused(self):
        for labels in ({"a b": "c"}, {"-a": "c"}, {"a": "b c"}, {"a": "x" * 64}, {"a/b/c": "d"}, {"A.io/b": "c"}):
            for where in ("commonLabels", "pod.labels", "pod.nodeSelector", "service.labels"):
                self.assert_refused(where, labels, where.split(".", maxsplit=1)[0])

    def assert_refused(self, where, value, words):
        for name in reversed(where.split(".")):
            value = {name: value}
        done = chart.template(merged(SECURE, value))
        self.assertNotEqual(done.returncode, 0, json.dumps(value))
        self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
