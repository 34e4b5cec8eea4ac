"""Starts the programs of rendered manifests on this machine, as the kubelet would in a cluster.

Each pod has an address of its own in 127.0.0.0/8, so that ports stay as they are. Only what the machine requires is
replaced: the address to listen on, the names of Services and pods (by addresses), mount paths (by folders), programs (by
those that were built). A program gets the environment of its manifest and nothing else.
"""
import http.client
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import uuid

from chart import NAMESPACE, ROOT, without_hash

sys.path.insert(0, str(ROOT / "tests/clients"))
from processes import addresses, await_true  # noqa: E402

PROGRAMS = {f"/usr/bin/escapement-{name}": ROOT / f"services/{name.replace('-', '_')}/{name.replace('-', '_')}"
            for name in ("store", "master", "emitter", "handler", "token-manager", "standalone")}
PROGRAMS["/usr/bin/escctl"] = ROOT / "tools/escctl/escctl"
DEADLINE = 120  # seconds for each wait


class Pod:
    """One pod. `folder` keeps its volumes, also over a restart of the pod if they are claims."""

    def __init__(self, cluster, name, template, claims, owner):
        self.cluster, self.name, self.template, self.owner = cluster, name, template, owner
        self.spec = template["spec"]
        self.address = cluster.address_of(name)
        self.uid = str(uuid.uuid4())
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=cluster.folder))
        # Volume → the claim that holds it.
        self.claims = {claim: f"{claim}-{name}" for claim in claims} | {
            volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in self.spec.get("volumes", [])
            if "persistentVolumeClaim" in volume}
        self.process = None
        self.leaving = False
        for volume in self.spec.get("volumes", []):
            self._fill(volume)
        for claim in self.claims:
            self.path_of(claim).mkdir(parents=True, exist_ok=True)

    def path_of(self, volume):
        """A claim outlives the pod."""
        return self.cluster.folder / "claims" / self.claims[volume] if volume in self.claims else self.folder / volume

    def _fill(self, volume):
        if volume["name"] in self.claims:
            return
        there = self.path_of(volume["name"])
        there.mkdir()
        if "configMap" in volume:
            files = self.cluster.config_maps[volume["configMap"]["name"]]
            items = [(name, name) for name in files]
        elif "secret" in volume:
            files = self.cluster.secrets[volume["secret"]["secretName"]]
            items = [(item["key"], item["path"]) for item in volume["secret"].get("items", [])] or [(name, name) for name in files]
        else:
            assert "emptyDir" in volume or "ephemeral" in volume, volume
            return
        for key, path in items:
            (there / path).write_text(self.local(files[key]) if "configMap" in volume else files[key], encoding="utf-8")

    def local(self, text):
        """`text` with this machine's folders and addresses."""
        mounts = {mount["mountPath"]: self.path_of(mount["name"])
                  for container in self.containers() for mount in container.get("volumeMounts", [])}
        for path in sorted(mounts, key=len, reverse=True):
            text = re.sub(re.escape(path) + r"(?=[/\s]|$)", str(mounts[path]), text)
        return self.cluster.with_addresses(text)

    def containers(self):
        return self.spec.get("initContainers", []) + self.spec["containers"]

    def environment(self, container):
        values = {}
        for entry in container.get("envFrom", []):
            values.update(self.cluster.secrets.get(entry["secretRef"]["name"], {}))
        for entry in container.get("env", []):
            source = entry.get("valueFrom", {})
            if "fieldRef" in source:
                value = {"metadata.name": self.name, "metadata.uid": self.uid}[source["fieldRef"]["fieldPath"]]
            elif "secretKeyRef" in source:
                value = self.cluster.secrets[source["secretKeyRef"]["name"]][source["secretKeyRef"]["key"]]
            else:
                value = entry["value"]
            values[entry["name"]] = value
        return values

    def command(self, container, here=True):
        """The command of a container; with `here` it listens on the pod's address."""
        values = self.environment(container)
        words = [re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], word) for word in container.get("args", [])]
        if here:
            words = [re.sub(r"^(--(?:http_)?listen=)(0\.0\.0\.0|\[::\]):", rf"\g<1>{self.address}:", word) for word in words]
        return [str(PROGRAMS[container["command"][0]]), *map(self.local, words)]

    def run(self, container, *more, here=True):
        """Runs a container to its end."""
        return subprocess.run([*self.command(container, here), *more], env=self.environment(container), capture_output=True,
                              text=True, timeout=DEADLINE, cwd="/", check=False)

    def check_flags(self):
        """The program takes its arguments, environment and config file, as they are in a cluster."""
        done = self.run(self.spec["containers"][0], "--print_config", here=False)
        if done.returncode != 0:
            raise AssertionError(f"{self.name} does not take what the manifest gives: {done.stderr}")

    def start(self):
        self.check_flags()
        container = self.spec["containers"][0]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(self.command(container), env=self.environment(container), stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, cwd="/")

    def probe(self, kind):
        """Asks as the kubelet does. None if there is no answer."""
        container = self.spec["containers"][0]
        get = container[kind]["httpGet"]
        port = next(port["containerPort"] for port in container["ports"] if port["name"] == get["port"])
        seconds = container[kind]["timeoutSeconds"]
        if get["scheme"] == "HTTPS":
            # The kubelet does not verify, and presents no certificate.
            context = ssl._create_unverified_context()  # pylint: disable=protected-access
            connection = http.client.HTTPSConnection(self.address, port, timeout=seconds, context=context)
        else:
            connection = http.client.HTTPConnection(self.address, port, timeout=seconds)
        try:
            connection.request("GET", get["path"], headers={"User-Agent": "kube-probe/1.35", "Connection": "close"})
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def await_probe(self, kind):
        def succeeds():
            code = self.process.poll()
            assert code is None, f"{self.name} ended with {code}: {self.log()}"
            return self.probe(kind) == 200

        try:
            await_true(f"the {kind} of {self.name}", succeeds, DEADLINE)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from None

    def log(self):
        return (self.folder / "log").read_text(encoding="utf-8")[-4000:]

    def stop(self):
        """SIGTERM, as at the end of a pod. Returns the exit code, or raises if the grace does not suffice."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=self.spec["terminationGracePeriodSeconds"])

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Cluster:
    """The pods of a set of objects. Threads may replace pods of different owners. `known`: its Secrets, name → key → text."""

    def __init__(self, objects, known, folder):
        self.objects, self.secrets, self.folder = objects, known, pathlib.Path(folder)
        self._free = addresses()
        self._addresses = {}
        self._naming = threading.Lock()
        self.config_maps = {each["metadata"]["name"]: each["data"] for each in objects if each["kind"] == "ConfigMap"}
        self.pods = []
        self.calling = threading.Lock()  # held by whoever calls a Service

    def address_of(self, pod):
        with self._naming:
            if pod not in self._addresses:
                self._addresses[pod] = next(self._free)
            return self._addresses[pod]

    def with_addresses(self, text):
        """Names of pods and of the public Service, by addresses."""
        for each in self.objects:
            if each["kind"] != "Service":
                continue
            name = f"{each['metadata']['name']}.{NAMESPACE}.svc"
            text = re.sub(rf"([a-z0-9-]+)\.{re.escape(name)}", lambda match: self.address_of(match[1]), text)
            if name in text:
                text = text.replace(name, self.front(each).address)
        return text

    def front(self, service):
        return next(pod for pod in self.pods if service["spec"]["selector"].items() <= pod.template["metadata"]["labels"].items()
                    and not pod.leaving and pod.process is not None and pod.process.poll() is None)

    def make(self, owner, number):
        """A pod of a Deployment or StatefulSet."""
        claims = [claim["metadata"]["name"] for claim in owner["spec"].get("volumeClaimTemplates", [])]
        pod = Pod(self, f"{owner['metadata']['name']}-{number}", owner["spec"]["template"], claims, owner)
        self.pods.append(pod)
        return pod

    def owners(self):
        """Stores first: the order of starts does not matter in a cluster, but here it saves time."""
        owners = [each for each in self.objects if each["kind"] in ("StatefulSet", "Deployment")]
        return sorted(owners, key=lambda each: each["kind"] != "StatefulSet")

    def names(self):
        """Of the pods that start() makes."""
        return [f"{owner['metadata']['name']}-{number}" for owner in self.owners() for number in range(owner["spec"]["replicas"])]

    def start(self):
        for owner in self.owners():
            for number in range(owner["spec"]["replicas"]):
                self.make(owner, number).start()
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            if kind == "readinessProbe":
                self.run_jobs()  # the services of a further cell wait for its Job
            for pod in self.pods:
                pod.await_probe(kind)

    def run_jobs(self):
        """Runs the pod of each Job until it succeeds."""
        for each in self.objects:
            if each["kind"] == "Job":
                pod = Pod(self, without_hash(each), each["spec"]["template"], [], each)
                await_true(f"the end of {pod.name}", lambda pod=pod: self.run_pod(pod)[1] is None, DEADLINE)

    def replace(self, pod):
        """An upgrade of one pod: of a StatefulSet the old one ends first, of a Deployment the new one is ready first."""
        surge = pod.owner["kind"] == "Deployment"
        number = int(pod.name.rsplit("-", 1)[1]) + (100 if surge else 0)
        if not surge:
            assert pod.stop() == 0, pod.log()
            self.pods.remove(pod)
        new = self.make(pod.owner, number)
        new.start()
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            new.await_probe(kind)
        if surge:
            # From now on the Service does not name it. preStop waits for that; here the lock shows that no call is under way.
            with self.calling:
                pod.leaving = True
            assert pod.stop() == 0, pod.log()
            self.pods.remove(pod)
        return new

    def test_pods(self, objects=None):
        """The pods that `helm test` runs, by their names, in its order; of other values with `objects`."""
        hooks = [each for each in objects or self.objects if each["metadata"].get("annotations", {}).get("helm.sh/hook") == "test"]
        hooks.sort(key=lambda each: int(each["metadata"]["annotations"]["helm.sh/hook-weight"]))
        return {each["metadata"]["name"]: Pod(self, each["metadata"]["name"], each, [], each) for each in hooks}

    def backup_pod(self, of=""):
        """The pod that the CronJob makes at its time; `of` ends the name of a further cell's."""
        job = next(each for each in self.objects if each["kind"] == "CronJob" and each["metadata"]["name"].endswith(f"-backup{of}"))
        return Pod(self, job["metadata"]["name"], job["spec"]["jobTemplate"]["spec"]["template"], [], job)

    def run_to_end(self, pod):
        """Runs each container of a pod. Returns its output by its name."""
        outputs, failed = self.run_pod(pod)
        assert failed is None, f"{failed}: {outputs[failed]}"
        return outputs

    def run_pod(self, pod):
        """Runs each container of a pod, until one fails. Returns the output of each by its name, and the name of the failed one."""
        outputs = {}
        for container in pod.containers():
            done = pod.run(container)
            outputs[container["name"]] = done.stdout + done.stderr
            if done.returncode != 0:
                return outputs, container["name"]
        return outputs, None

    def end(self):
        for pod in self.pods:
            pod.kill()
