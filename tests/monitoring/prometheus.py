"""A Prometheus of a test's own: Debian's program, on loopback, with its data in a temporary folder."""
import json
import os
import re
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from platform_processes import Process, await_true

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# The durations of a rule: [5m], for: 2m, offset 2d; and thresholds in seconds, an age of 900, for example.
DURATION = re.compile(r"(\[|\bfor: |\boffset )(\d+)([smhd])")
SECONDS_OF = re.compile(r"\b(\d+)(?= # value: \w+Seconds$)", re.MULTILINE)


def shorten(rules, factor):
    """The text of a file of rules in which all windows and waits are shorter by the factor."""
    def shorter(found):
        return f"{found[1]}{max(1, int(found[2]) * SECONDS[found[3]] // factor)}s"
    # One of less than the factor is about how quick something is, not about how long to wait.
    return SECONDS_OF.sub(lambda found: str(max(int(found[1]) // factor, 1) if int(found[1]) >= factor else int(found[1])),
                          DURATION.sub(shorter, rules))


def operator_labels(number):
    """Labels that prometheus-operator gives the target of that number, and that of a cluster."""
    return {"cluster": "east", "namespace": "jobs", "pod": f"pod-{number}", "container": "escapement", "endpoint": "metrics",
            "service": "escapement-metrics"}


class Prometheus:
    """Scrapes the targets, a list of host:port, and evaluates the rules, a list of texts.

    `operator`: the targets have the labels that prometheus-operator gives them.
    """

    def __init__(self, folder, targets, rules, operator=False):
        if operator:
            folder = os.path.join(folder, "operator")
            os.mkdir(folder)
        files = []
        for number, text in enumerate(rules):
            files.append(os.path.join(folder, f"rules{number}.yaml"))
            with open(files[-1], "w", encoding="utf-8") as file:
                file.write(text)
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": files,
            "scrape_configs": [{"job_name": "escapement", "static_configs": [
                {"targets": [target], "labels": operator_labels(number) if operator else {}} for number, target in enumerate(targets)]}],
        }
        path = os.path.join(folder, "prometheus.json")  # JSON is YAML
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self._process = Process(
            "prometheus", ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={folder}/prometheus",
                           f"--web.listen-address={self.address}", "--log.level=warn"], folder)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            await_true("readiness of Prometheus", self._ready)
        except BaseException:
            self.end()
            raise

    def _get(self, path, **arguments):
        query = urllib.parse.urlencode(arguments)
        with self._opener.open(f"http://{self.address}{path}?{query}", timeout=30) as answer:
            return answer.read()

    def _ready(self):
        try:
            return b"Ready" in self._get("/-/ready")
        except (urllib.error.URLError, ConnectionError):
            return False

    def query(self, expression):
        """The present values: a list of pairs of labels and a number."""
        answer = json.loads(self._get("/api/v1/query", query=expression))["data"]
        if answer["resultType"] == "scalar":
            return [({}, float(answer["result"][1]))]
        return [(sample["metric"], float(sample["value"][1])) for sample in answer["result"]]

    def firing(self):
        """The alerts that fire: a dictionary of names and the first description."""
        alerts = json.loads(self._get("/api/v1/alerts"))["data"]["alerts"]
        return {alert["labels"]["alertname"]: alert["annotations"]["description"] for alert in alerts if alert["state"] == "firing"}

    def metric_names(self):
        return set(json.loads(self._get("/api/v1/label/__name__/values"))["data"])

    def label_names(self):
        return json.loads(self._get("/api/v1/labels"))["data"]

    def promtool_queries(self, expressions):
        """Runs each expression with `promtool query instant`. Returns the number of its samples, without those that are NaN."""
        def run(expression):
            done = subprocess.run(["promtool", "query", "instant", f"http://{self.address}", expression],
                                  capture_output=True, text=True, timeout=60, check=False)
            if done.returncode != 0:
                raise AssertionError(f"promtool query instant {expression!r}: {done.stderr}")
            return sum(1 for line in done.stdout.splitlines() if line.strip() and " => NaN " not in line)
        with ThreadPoolExecutor(2) as threads:
            return list(threads.map(run, expressions))

    def end(self):
        self._process.end()
