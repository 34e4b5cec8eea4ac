"""Further cells: what the chart renders for them, and what it refuses."""
import http.server
import json
import re
import threading
import unittest

import chart
from chart import CELLS, CERTIFICATES, MONITORING, REPLICATED, SECURE, case, find, merged, pods_of

OPEN = merged(REPLICATED, {"insecure": True})
# Each kind of pods of a cell.
KINDS = ("store", "emitter", "handler", "token-manager")


def named(objects):
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def program(objects, name):
    return dict(pods_of(objects))[f"it-escapement-{name}"]["spec"]["containers"][0]


def with_cells(*cells):
    """Values with these cells, each with a log of its own unless it says another one."""
    return merged(OPEN, {"cells": [merged({"store": {"postgresql": {"existingSecret": f"database-{cell.get('number')}"}}}, cell) for cell in cells]})


class CellsTest(unittest.TestCase):
    def test_no_cells_are_the_default(self):
        for values in (SECURE, OPEN):
            self.assertEqual(chart.template(values).stdout, chart.template(merged(values, {"cells": []})).stdout)

    def test_the_home_cell_stays_as_it_is(self):
        """So a new cell restarts none of its pods."""
        for name in ("cells", "cells secure", "cells everything on"):
            values, knows = chart.CASES[name]
            alone = named(chart.render(merged(values, {"cells": []}), knows))
            objects = named(chart.render(values, knows))
            changed = {kind for (kind, _), each in alone.items() if objects.pop((kind, each["metadata"]["name"])) != each}
            # Masters connect to all stores, and Jobs to the masters; all stores have names in the certificate.
            self.assertEqual(changed - {"NetworkPolicy", "Certificate", "ServiceMonitor"}, set(), name)
            self.assertEqual([key for key in objects if not re.search(r"-cell-(1|63)(-[0-9a-f]{8})?$", key[1])], [], name)

    def test_each_cell_has_all_objects_of_the_home_cell_but_those_of_masters(self):
        objects = case("cells secure")
        api = {"it-escapement", "it-escapement-headless", "it-escapement-metrics"}
        home = {(each["kind"], each["metadata"]["name"]) for each in chart.render(
            merged(REPLICATED, SECURE, {"tls": {"existingSecret": ""}}, CERTIFICATES, {"backup": CELLS["backup"]}))}
        expected = {(kind, name.removeprefix("it-escapement").removeprefix("-")) for kind, name in home
                    if not name.endswith(("-master", "test")) and kind not in ("Certificate", "ServiceAccount")
                    and not (kind == "Service" and name in api)} | {("Job", "create"), ("NetworkPolicy", "create")}
        for number, more in ((1, set()), (63, {("HorizontalPodAutoscaler", "emitter"), ("ServiceAccount", "handler")})):
            found = {(each["kind"], re.sub(r"^it-escapement-?|-?cell-\d+(-[0-9a-f]{8})?$", "", each["metadata"]["name"]))
                     for each in objects if f"-cell-{number}" in each["metadata"]["name"]}
            self.assertEqual(found, expected | more)

    def test_the_programs_of_a_cell_use_its_own_stores(self):
        objects = case("cells")
        for number, replicas in ((1, 3), (63, 2)):
            hosts = [f"it-escapement-store-cell-{number}-{i}.it-escapement-stores-cell-{number}.jobs.svc:7400" for i in range(replicas)]
            for kind in KINDS[1:]:
                self.assertIn("--store=" + ",".join(hosts), program(objects, f"{kind}-cell-{number}")["args"])
            store = program(objects, f"store-cell-{number}")
            self.assertIn(f"--cell={number}", store["args"])
            self.assertIn(f"--advertise=$(POD_NAME).it-escapement-stores-cell-{number}.jobs.svc:7400", store["args"])
            url = next(entry["valueFrom"]["secretKeyRef"] for entry in store["env"] if entry["name"] == "ESCAPEMENT_REPLICATE_THROUGH")
            self.assertEqual(url["name"], f"database-{number}")
            owner = find(objects, "StatefulSet", f"-store-cell-{number}")["spec"]
            self.assertEqual((owner["replicas"], owner["serviceName"]), (replicas, f"it-escapement-stores-cell-{number}"))
        self.assertNotIn("--cell", str(program(objects, "store")["args"]))

    def test_a_cell_changes_its_own_values_alone(self):
        objects = case("cells")
        images = {name: pod["spec"]["containers"][0]["image"] for name, pod in pods_of(objects)}
        self.assertEqual({name for name, image in images.items() if image == "escapement:1.9.0"},
                         {f"it-escapement-{kind}-cell-63" for kind in (*KINDS, "backup")})
        deployments = {each["metadata"]["name"]: each["spec"].get("replicas") for each in objects if each["kind"] == "Deployment"}
        self.assertEqual([deployments[f"it-escapement-handler{cell}"] for cell in ("", "-cell-1", "-cell-63")], [2, 2, 5])
        self.assertIsNone(deployments["it-escapement-emitter-cell-63"])
        pods = dict(pods_of(objects))
        self.assertEqual(pods["it-escapement-handler-cell-63"]["spec"]["nodeSelector"], {"zone": "b", "disk": "ssd"})
        self.assertEqual(pods["it-escapement-store-cell-63"]["spec"]["nodeSelector"], {"zone": "b"})
        self.assertNotIn("nodeSelector", pods["it-escapement-store-cell-1"]["spec"])
        self.assertEqual([program(objects, f"token-manager{cell}")["resources"]["limits"]["memory"] for cell in ("", "-cell-1", "-cell-63")],
                         ["1Gi", "1Gi", "3Gi"])
        ports = [find(objects, "NetworkPolicy", f"-store{cell}")["spec"]["egress"][1]["ports"] for cell in ("", "-cell-1", "-cell-63")]
        self.assertEqual(ports, [[{"port": 5432}], [{"port": 5432}], [{"port": 6432}]])
        schedules = [find(objects, "CronJob", f"-backup{cell}")["spec"]["schedule"] for cell in ("", "-cell-1", "-cell-63")]
        self.assertEqual(schedules, ["@daily", "@daily", "@hourly"])

    def test_a_change_of_one_cells_configuration_restarts_its_pods_alone(self):
        objects = case("cells")
        texts = [find(objects, "ConfigMap", f"it-escapement{cell}")["data"]["escapement.yaml"] for cell in ("", "-cell-1", "-cell-63")]
        self.assertEqual(texts[0], texts[1])
        self.assertIn('emit_ahead: "7s"\n', texts[2])
        self.assertIn("drain_timeout: 9s\n", texts[2])
        sums = {}
        for name, pod in pods_of(objects):
            if "checksum/config" in pod["metadata"].get("annotations", {}):
                sums.setdefault(pod["metadata"]["annotations"]["checksum/config"], set()).add(re.sub(".*-cell-", "", name))
                used = next(volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if "configMap" in volume)
                self.assertEqual(used, "it-escapement" + "".join(re.findall(r"-cell-\d+$", name)))
        self.assertEqual(sorted("63" in cells for cells in sums.values()), [False, True])
        self.assertIn({"63"}, sums.values())

    def test_a_tag_of_a_cell_goes_before_the_digest_of_the_home_cell(self):
        objects = case("cells everything on")
        self.assertEqual(program(objects, "handler-cell-63")["image"], "mirror.example/escapement:1.9.0")
        self.assertEqual(program(objects, "handler-cell-1")["image"], program(objects, "handler")["image"])

    def test_pods_have_the_accounts_of_the_home_cell_or_their_own(self):
        accounts = {name: pod["spec"]["serviceAccountName"] for name, pod in pods_of(case("cells everything on"))}
        self.assertEqual(accounts["it-escapement-emitter-cell-1"], "it-escapement-emitter")
        self.assertEqual(accounts["it-escapement-store-cell-63"], "it-escapement")
        self.assertEqual(accounts["it-escapement-backup-cell-63"], "it-escapement-backup")
        self.assertEqual(accounts["it-escapement-handler-cell-63"], "it-escapement-handler-cell-63")
        own = find(case("cells everything on"), "ServiceAccount", "-handler-cell-63")
        self.assertEqual(own["metadata"]["annotations"], {"role": "x"})

    def test_the_job_creates_the_cell_and_its_name_follows_its_template(self):
        def jobs(*changes):
            return {chart.without_hash(each): each for each in chart.render(merged(OPEN, CELLS, *changes)) if each["kind"] == "Job"}

        made = jobs()
        self.assertEqual(set(made), {"it-escapement-create-cell-1", "it-escapement-create-cell-63"})
        for number, weight in ((1, []), (63, ["0.5"])):
            spec = made[f"it-escapement-create-cell-{number}"]["spec"]["template"]["spec"]
            self.assertEqual(spec["restartPolicy"], "OnFailure")
            steps = [container["args"] for container in spec.get("initContainers", []) + spec["containers"]]
            self.assertEqual(steps[0], ["--server=it-escapement.jobs.svc:7410", "cell", "create", str(number),
                                        f"--store=it-escapement-stores-cell-{number}.jobs.svc:7400", "--if-missing"])
            self.assertEqual(steps[1:], [["--server=it-escapement.jobs.svc:7410", "cell", "update", str(number), f"--weight={each}"]
                                         for each in weight])
        # The API server refuses a change of the template.
        for changes in ({"image": {"tag": "2"}}, {"merge": {"Job/create-cell-1": {"spec": {"template": {"spec": {"hostNetwork": True}}}}}}):
            after = jobs(changes)["it-escapement-create-cell-1"]
            before = made["it-escapement-create-cell-1"]
            self.assertNotEqual(before["spec"]["template"], after["spec"]["template"])
            self.assertNotEqual(before["metadata"]["name"], after["metadata"]["name"])
        # An upgrade of one cell alone restarts no Job of the others.
        self.assertEqual(made, jobs({"cells": [merged(cell, {"image": {"tag": "2"}}) for cell in CELLS["cells"]]}))

    def test_objects_of_a_cell_can_be_changed(self):
        change = {"spec": {"revisionHistoryLimit": 3}}
        objects = chart.render(merged(OPEN, CELLS, {"merge": {"Deployment/handler-cell-63": change}}))
        limits = {each["metadata"]["name"]: each["spec"].get("revisionHistoryLimit") for each in objects if each["kind"] == "Deployment"}
        self.assertEqual([name for name, limit in limits.items() if limit], ["it-escapement-handler-cell-63"])
        self.assertEqual(len(objects), len(case("cells")))

    def test_connections_of_cells_are_allowed(self):
        for name in ("cells secure", "cells everything on"):
            objects = case(name)
            labels = {pod: template["metadata"]["labels"] for pod, template in pods_of(objects)}

            def lets(rules, side, pod, labels=labels):
                return any(rule == {} or {"port": "grpc"} in rule["ports"] and (side not in rule or any(
                    peer["podSelector"].get("matchLabels", {"none": ""}).items() <= labels[f"it-escapement-{pod}"].items()
                    for peer in rule[side] if "podSelector" in peer)) for rule in rules)

            calls = [(pod, store) for number in (1, 63) for store in [f"store-cell-{number}"] for pod in (
                "master", *(f"{kind}-cell-{number}" for kind in KINDS[1:]), f"backup-cell-{number}")]
            calls += [(f"create-cell-{number}", "master") for number in (1, 63)]
            for pod, server in calls:
                for policy, side, other in ((pod, "to", server), (server, "from", pod)):
                    rules = find(objects, "NetworkPolicy", f"-escapement-{policy}")["spec"]["egress" if side == "to" else "ingress"]
                    self.assertTrue(lets(rules, side, other), (name, pod, server, side))
            own = find(objects, "NetworkPolicy", "-escapement-emitter-cell-1")["spec"]["egress"]
            self.assertFalse(lets(own, "to", "store"))

    def test_backups_of_a_cell_come_from_its_stores_and_stay_apart(self):
        objects = case("cells")
        for number in (1, 63):
            backup = dict(pods_of(objects))[f"it-escapement-backup-cell-{number}"]["spec"]
            self.assertEqual(backup["containers"][0]["args"][0], f"--server=it-escapement-stores-cell-{number}.jobs.svc:7400")
            claim = backup["volumes"][0]["persistentVolumeClaim"]["claimName"]
            self.assertEqual(claim, f"it-escapement-backup-cell-{number}")
            self.assertTrue(find(objects, "PersistentVolumeClaim", claim))
        bucket = chart.render(merged(OPEN, CELLS, {"backup": {"s3": {"bucket": "abc"}}}))
        places = [word for _, pod in pods_of(bucket) for word in pod["spec"]["containers"][0]["args"] if word.startswith("s3://")]
        self.assertEqual(sorted(places), [f"s3://abc/jobs/it-escapement{cell}" for cell in ("", "-cell-1", "-cell-63")])

    def test_the_certificate_has_the_names_of_all_stores(self):
        names = find(case("cells secure"), "Certificate", "")["spec"]["dnsNames"]
        for number, replicas in ((1, 3), (63, 2)):
            service = f"it-escapement-stores-cell-{number}.jobs.svc"
            self.assertEqual([name for name in names if name.endswith(service)],
                             [service, *(f"it-escapement-store-cell-{number}-{i}.{service}" for i in range(replicas))])

    def test_series_of_a_cell_have_its_number(self):
        endpoint = find(case("cells secure"), "ServiceMonitor", "")["spec"]["endpoints"][0]
        for component, expected in (("store", {"component": "store"}), ("token-manager-cell-63", {"component": "token-manager", "cell": "63"})):
            labels = {}
            for each in endpoint["relabelings"]:
                self.assertEqual(each["sourceLabels"], ["__meta_kubernetes_pod_label_app_kubernetes_io_component"])
                if found := re.fullmatch(each.get("regex", "(.*)"), component):
                    labels[each["targetLabel"]] = found.expand(each.get("replacement", "$1").replace("$", "\\"))
            self.assertEqual(labels, expected)
        self.assertEqual(len(find(case("replicated secure"), "ServiceMonitor", "")["spec"]["endpoints"][0]["relabelings"]), 1)

    def test_names_stay_short_enough(self):
        longest = chart.render(merged(OPEN, CELLS, {"fullnameOverride": "x" * 37}))
        for each in longest:
            # A CronJob adds 11 characters to the name of its Jobs, a StatefulSet a hash to the label of its pods.
            self.assertLessEqual(len(each["metadata"]["name"]), {"CronJob": 52, "StatefulSet": 52}.get(each["kind"], 63))


REFUSED = {
    "number 0": ([{"number": 0}], ["number", "minimum"]),
    "number 64": ([{"number": 64}], ["number", "maximum"]),
    "no number": ([{}], ["missing property 'number'"]),
    "one number twice": ([{"number": 3}, {"number": 3, "store": {"postgresql": {"existingSecret": "other"}}}], ["cells has number 3 twice"]),
    "the log of the home cell": ([{"number": 1, "store": {"postgresql": {"existingSecret": "database"}}}], ["Cell 1 has the log of another cell"]),
    "the log of another cell": (
        [{"number": 1}, {"number": 2, "store": {"postgresql": {"existingSecret": "database-1"}}}], ["Cell 2 has the log of another cell"]),
    "other partitions": ([{"number": 1, "config": {"partitions": 8}}], ["In cell 1: config.partitions must be that of the home cell"]),
    "masters": ([{"number": 1, "master": {"replicas": 3}}], ["master"]),
    "an unknown value": ([{"number": 1, "handler": {"replica": 3}}], ["handler", "replica"]),
    "a weight of 0": ([{"number": 1, "weight": 0}], ["weight"]),
    "more pods at least than at most": (
        [{"number": 2, "handler": {"autoscaling": {"minReplicas": 9}}}], ["In cell 2: handler.autoscaling", "minReplicas (9)"]),
    "a label of the chart": (
        [{"number": 2, "pod": {"labels": {"app.kubernetes.io/name": "x"}}}], ["In cell 2: pod.labels must not have app.kubernetes.io/name"]),
    "roles of an account that is not made": (
        [{"number": 2, "store": {"serviceAccount": {"annotations": {"a": "b"}}}}], ["In cell 2: store.serviceAccount.annotations counts only with"]),
    "a needed value that is null": ([{"number": 2, "store": {"replicas": None}}], ["store/replicas"]),
}


class RefusedTest(unittest.TestCase):
    def assert_refused(self, values, words):
        done = chart.template(values)
        self.assertNotEqual(done.returncode, 0, done.stdout[:200])
        for word in words:
            self.assertIn(word, done.stderr)

    def test_each_is_refused_by_name(self):
        for name, (cells, words) in REFUSED.items():
            with self.subTest(name):
                self.assert_refused(with_cells(*cells), words)

    def test_other_logs_of_one_database_are_accepted(self):
        database = {"store": {"postgresql": {"existingSecret": "database"}}}
        for cell in ({"config": {"replicated_log": "cell-1"}}, {"store": {"postgresql": {"urlKey": "url-1"}}}):
            chart.render(with_cells(merged(database, {"number": 1}, cell)))

    def test_backups_in_one_place_are_refused(self):
        for backup in ({"persistence": {"existingClaim": "old"}}, {"s3": {"bucket": "abc", "prefix": "a"}}):
            self.assert_refused(merged(with_cells({"number": 1}), {"backup": {"schedule": "@daily"} | backup}),
                                ["Cell 1 has the backups of another cell"])
            apart = {"backup": {"persistence": {"existingClaim": "new"}} if "persistence" in backup else {"s3": {"prefix": "b"}}}
            chart.render(merged(with_cells({"number": 1} | apart), {"backup": {"schedule": "@daily"} | backup}))

    def test_a_change_of_an_object_that_is_not_there_is_refused(self):
        for key in ("Deployment/handler-cell-2", "Deployment/master-cell-1", "Job/create-cell-2"):
            self.assert_refused(merged(with_cells({"number": 1}), {"merge": {key: {"spec": {"a": 1}}}}), [f"there is no object {key}"])

    def test_mode_standalone_is_refused(self):
        self.assert_refused(merged(SECURE, {"cells": [{"number": 1}]}), ["cells needs mode=replicated"])

    def test_a_long_prefix_is_refused(self):
        self.assert_refused(merged(with_cells({"number": 1}), {"fullnameOverride": "x" * 38}), ["at most 37 characters"])

    def test_a_cell_whose_stores_run_cannot_be_left_out(self):
        objects = chart.render(with_cells({"number": 1}, {"number": 2}))
        stores = [each for each in objects if each["kind"] == "StatefulSet"]
        with ApiServer(objects, stores) as server:
            for left, refused in (((1, 2), None), ((1,), "no cell 2"), ((), "no cell 1")):
                done = server.template(with_cells(*[{"number": number} for number in left]))
                if refused is None:
                    self.assertEqual(done.returncode, 0, done.stderr)
                else:
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(f"cells has {refused}, whose stores run", done.stderr)
            # Stores of other releases do not count.
            self.assertEqual(server.template(OPEN, release="other").returncode, 0)


class ApiServer:
    """As much of an API server as helm asks before an installation: the kinds of these objects, and the StatefulSets that are there."""

    def __init__(self, objects, stateful_sets):
        kinds = {(each["apiVersion"], each["kind"]) for each in objects}
        groups = {version.split("/")[0] for version, _ in kinds if "/" in version}
        answers = {
            "/version": {"major": "1", "minor": "35", "gitVersion": "v1.35.0"},
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
                {"name": group, "versions": [{"groupVersion": f"{group}/v1", "version": "v1"}],
                 "preferredVersion": {"groupVersion": f"{group}/v1", "version": "v1"}} for group in groups]},
            f"/apis/apps/v1/namespaces/{chart.NAMESPACE}/statefulsets": {
                "kind": "StatefulSetList", "apiVersion": "apps/v1", "metadata": {}, "items": stateful_sets},
        }
        for version in {version for version, _ in kinds}:
            answers[f"/apis/{version}" if "/" in version else f"/api/{version}"] = {
                "kind": "APIResourceList", "groupVersion": version, "resources": [
                    {"name": re.sub("y$", "ie", kind.lower()) + "s", "namespaced": True, "kind": kind, "verbs": ["get", "list"]}
                    for each, kind in kinds if each == version]}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                found = answers.get(self.path.partition("?")[0])
                body = json.dumps(found or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}).encode()
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()

    def template(self, values, release="it"):
        return chart.run("helm", "template", release, str(chart.CHART), "--namespace", chart.NAMESPACE, "--dry-run=server",
                         "--disable-openapi-validation", "--kube-apiserver", f"http://127.0.0.1:{self._server.server_port}", "--values", "-", text=json.dumps(values))


if __name__ == "__main__":
    unittest.main()
