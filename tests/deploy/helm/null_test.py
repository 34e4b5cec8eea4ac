"""Each value is set to null: helm then deletes its default. It is refused by name, or left out where that means something."""
import concurrent.futures
import unittest

import yaml

import chart
from chart import MONITORING, REPLICATED, SECURE, case, find, merged, pods_of
from strict_test import errors_of

VALUES = yaml.safe_load((chart.CHART / "values.yaml").read_text(encoding="utf-8"))
HPA = {name: {"autoscaling": {"enabled": True}} for name in chart.SERVICES}
DASHBOARDS = {"metrics": {"dashboards": {"enabled": True}}}
BACKUP = {"backup": {"schedule": "@daily"}}
S3 = merged(BACKUP, {"backup": {"s3": {"bucket": "abc", "prefix": "a", "endpoint": "http://a:9", "region": "b", "credentialsSecret": "c"}}})
MODES = {"standalone": SECURE, "replicated": merged(REPLICATED, SECURE, HPA)}


def paths(values, path=()):
    for name, value in values.items():
        yield (*path, name)
        if isinstance(value, dict):
            yield from paths(value, (*path, name))


def nested(path, value):
    return {path[0]: nested(path[1:], value)} if path else value


def with_null(values, path):
    """Keys of `values` at and below the path give way."""
    return merged(values, nested(path, None))


def has_null(value):
    if isinstance(value, (dict, list)):
        return any(map(has_null, value.values() if isinstance(value, dict) else value))
    return value is None


def errors(path):
    """What is wrong with the answers for this path."""
    for mode, values in MODES.items():
        monitoring = path[0] == "metrics"
        values = merged(values, DASHBOARDS if monitoring else S3 if path[:2] == ("backup", "s3") else BACKUP if path[0] == "backup" else {})
        done = chart.template(with_null(values, path), MONITORING if monitoring else ())
        if done.returncode == 0:
            objects = [each for each in yaml.safe_load_all(done.stdout) if each]
            changed = [each for each in objects if each not in case(f"{mode} secure")]
            yield from (f"{mode}: {error}" for error in (errors_of(changed) if changed else []))
            for each in objects:
                if has_null(each) or "%!" in str(each) or "<no value>" in str(each):
                    yield f"{mode}: {each['metadata']['name']} has null"
                if each["kind"] in ("Deployment", "StatefulSet") and each["spec"].get("replicas") == 0:
                    yield f"{mode}: {each['metadata']['name']} has no pods"
        elif "nil pointer" in done.stderr or "error calling" in done.stderr and "Error: execution error" not in done.stderr:
            yield f"{mode}: {done.stderr}"
        elif path[-1] not in done.stderr:
            yield f"{mode}: the refusal does not name the value: {done.stderr}"


class NullTest(unittest.TestCase):
    def test_no_value_becomes_zero(self):
        every = list(paths(VALUES))
        self.assertGreater(len(every), 200)
        with concurrent.futures.ThreadPoolExecutor(2) as workers:
            for path, found in zip(every, workers.map(lambda path: list(errors(path)), every)):
                with self.subTest(".".join(path)):
                    self.assertEqual(found, [])

    def test_what_a_program_needs_is_refused(self):
        for path in ("handler", "store.replicas", "mode", "store.postgresql.port", "drainSeconds", "config", "pod.securityContext"):
            path = tuple(path.split("."))
            done = chart.template(with_null(MODES["replicated"], path))
            if path in (("config",), ("pod", "securityContext")):
                self.assertEqual(done.returncode, 0, done.stderr)
            else:
                self.assertIn(f"missing property '{path[-1]}'", done.stderr)

    def test_what_others_decide_is_left_out(self):
        handler = find(case("KEDA"), "Deployment", "-handler")["spec"]
        self.assertNotIn("replicas", handler)
        self.assertEqual(find(case("KEDA"), "Deployment", "-master")["spec"]["replicas"], 2)
        objects = chart.render(merged(MODES["replicated"], {"handler": {"resources": None, "autoscaling": {
            "targetCPUUtilizationPercentage": None, "metrics": [{"type": "Pods", "pods": {
                "metric": {"name": "due"}, "target": {"type": "AverageValue", "averageValue": "1000"}}}]}}}))
        self.assertEqual(errors_of(objects), [])
        self.assertEqual([metric["type"] for metric in find(objects, "HorizontalPodAutoscaler", "-handler")["spec"]["metrics"]], ["Pods"])
        self.assertEqual([metric["type"] for metric in find(objects, "HorizontalPodAutoscaler", "-master")["spec"]["metrics"]], ["Resource"])
        self.assertNotIn("resources", find(objects, "Deployment", "-handler")["spec"]["template"]["spec"]["containers"][0])
        no_heartbeat = find(chart.render(merged(SECURE, {"config": {"heartbeat_every": None}})), "ConfigMap", "escapement")
        self.assertNotIn("heartbeat_every", no_heartbeat["data"]["escapement.yaml"])

    def test_a_cluster_that_chooses_the_user_gets_no_user(self):
        for name, pod in pods_of(case("OpenShift")):
            context = pod["spec"]["securityContext"]
            self.assertEqual(set(context), {"runAsNonRoot", "fsGroupChangePolicy", "seccompProfile"}, name)


if __name__ == "__main__":
    unittest.main()
