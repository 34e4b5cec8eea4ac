"""What the chart renders: for each set of values, and for wrong ones."""
import os
import pathlib
import re
import shutil
import tempfile
import unittest

import chart
from chart import CASES, REPLICATED, SECURE, case, find, merged, pods_of

BESIDE = {"cloud-sql-proxy"}  # containers of others


def containers(objects):
    for name, pod in pods_of(objects):
        for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
            yield name, container


class EachCaseTest(unittest.TestCase):
    def test_helm_lint_finds_nothing(self):
        for name, (values, _) in CASES.items():
            with self.subTest(name):
                done = chart.run("helm", "lint", "--strict", str(chart.CHART), "--values", "-", text=chart.yaml.safe_dump(values))
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertNotIn("[WARNING]", done.stdout)

    def test_two_renders_are_equal(self):
        for name, values in CASES.items():
            with self.subTest(name):
                self.assertEqual(chart.template(*values).stdout, chart.template(*values).stdout)

    def test_no_two_objects_have_one_name(self):
        for name in CASES:
            names = [(each["kind"], each["metadata"]["name"]) for each in case(name)]
            self.assertEqual(len(names), len(set(names)), name)

    def test_pods_run_without_rights(self):
        for name in CASES:
            for pod_name, pod in pods_of(case(name)):
                spec = pod["spec"]
                with self.subTest(name, pod=pod_name):
                    self.assertIs(spec["automountServiceAccountToken"], False)
                    self.assertIs(spec["enableServiceLinks"], False)
                    self.assertIs(spec["securityContext"]["runAsNonRoot"], True)
                    self.assertEqual(spec["securityContext"].get("runAsUser"), None if name == "OpenShift" else 65532)
                    self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
            for pod_name, container in containers(case(name)):
                with self.subTest(name, pod=pod_name):
                    context = container["securityContext"]
                    self.assertIs(context["readOnlyRootFilesystem"], True)
                    self.assertIs(context["allowPrivilegeEscalation"], False)
                    self.assertEqual(context["capabilities"], {"drop": ["ALL"]})

    def test_selectors_find_the_pods(self):
        for name in CASES:
            objects = case(name)
            labels = {pod_name: pod["metadata"]["labels"] for pod_name, pod in pods_of(objects)}

            def found(selector):
                return {pod for pod, has in labels.items() if selector.items() <= has.items()}

            for each in objects:
                if each["kind"] in ("Deployment", "StatefulSet", "PodDisruptionBudget"):
                    owner = each["metadata"]["name"]
                    self.assertEqual(found(each["spec"]["selector"]["matchLabels"]), {owner}, name)
                if each["kind"] == "NetworkPolicy":
                    self.assertEqual(found(each["spec"]["podSelector"]["matchLabels"]), {each["metadata"]["name"]}, name)
                if each["kind"] == "Service":
                    self.assertTrue(found(each["spec"]["selector"]), each["metadata"]["name"])

    def test_mounts_have_volumes(self):
        for name in CASES:
            claims = {claim["metadata"]["name"] for each in case(name) if each["kind"] == "StatefulSet"
                      for claim in each["spec"].get("volumeClaimTemplates", [])}
            for pod_name, pod in pods_of(case(name)):
                volumes = {volume["name"] for volume in pod["spec"].get("volumes", [])} | claims
                for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
                    mounts = {mount["name"] for mount in container.get("volumeMounts", [])}
                    self.assertLessEqual(mounts, volumes, f"{name}: {pod_name}")

    def test_services_and_probes_name_ports_of_containers(self):
        for name in CASES:
            objects = case(name)
            ports = {pod_name: {port["name"] for container in pod["spec"]["containers"] for port in container.get("ports", [])}
                     for pod_name, pod in pods_of(objects)}
            for pod_name, container in containers(objects):
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    if probe in container and container["name"] not in BESIDE:
                        self.assertIn(container[probe]["httpGet"]["port"], ports[pod_name], name)
            labels = {pod_name: pod["metadata"]["labels"] for pod_name, pod in pods_of(objects)}
            for service in (each for each in objects if each["kind"] == "Service"):
                selected = [pod for pod, has in labels.items() if service["spec"]["selector"].items() <= has.items()]
                for pod in selected:
                    self.assertLessEqual({port["targetPort"] for port in service["spec"]["ports"]}, ports[pod], name)


def placed(spec, nodes, taints):
    """How many pods are on each node, if Kubernetes puts each on the first that the constraint over nodes allows."""
    over_nodes = spec["template"]["spec"]["topologySpreadConstraints"][0]
    assert (over_nodes["topologyKey"], over_nodes["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "DoNotSchedule")
    assert over_nodes["labelSelector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    pods = dict.fromkeys(nodes, 0)
    may = [node for node in nodes if node not in taints]
    counted = may if over_nodes.get("nodeTaintsPolicy") == "Honor" else nodes
    for _ in range(spec["replicas"]):
        least = min(pods[node] for node in counted)
        node = next((node for node in may if pods[node] + 1 - least <= over_nodes["maxSkew"]), None)
        assert node is not None, f"a pod waits: {pods}"
        pods[node] += 1
    return pods


class ModesTest(unittest.TestCase):
    def test_standalone_is_one_pod_with_a_volume(self):
        objects = case("standalone secure")
        self.assertIsNone(find(objects, "Deployment", ""))
        self.assertIsNone(find(objects, "PodDisruptionBudget", ""))
        spec = find(objects, "StatefulSet", "-standalone")["spec"]
        self.assertEqual(spec["replicas"], 1)
        self.assertEqual(spec["volumeClaimTemplates"][0]["spec"]["resources"], {"requests": {"storage": "20Gi"}})

    def test_replicated_runs_every_program(self):
        objects = case("replicated secure")
        programs = {container["command"][0] for name, container in containers(objects) if not name.endswith("-test")}
        self.assertEqual(programs, {f"/usr/bin/escapement-{name}" for name in
                                    ("store", "master", "emitter", "handler", "token-manager")})
        self.assertEqual(find(objects, "StatefulSet", "-store")["spec"]["replicas"], 3)
        self.assertEqual(len([each for each in objects if each["kind"] == "PodDisruptionBudget"]), 5)

    def test_services_name_all_stores(self):
        container = find(case("replicated secure"), "Deployment", "-handler")["spec"]["template"]["spec"]["containers"][0]
        store = next(word for word in container["args"] if word.startswith("--store="))
        self.assertEqual(store, "--store=" + ",".join(f"it-escapement-store-{i}.it-escapement-stores.jobs.svc:7400" for i in range(3)))
        two = find(case("replicated everything on"), "Deployment", "-handler")["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(sum(word.count(":7400") for word in two["args"]), 2)

    def test_an_upgrade_takes_no_ready_pod_away(self):
        for each in case("replicated secure"):
            if each["kind"] == "Deployment":
                self.assertEqual(each["spec"]["strategy"]["rollingUpdate"], {"maxSurge": 1, "maxUnavailable": 0})
                self.assertGreater(each["spec"]["minReadySeconds"], 0)
        # A follower is ready, otherwise the upgrade would wait for it for ever.
        store = find(case("replicated secure"), "StatefulSet", "-store")["spec"]
        self.assertEqual(store["template"]["spec"]["containers"][0]["readinessProbe"]["httpGet"]["path"], "/replicaz")
        self.assertNotIn("updateStrategy", store)  # RollingUpdate, one after the other

    def test_the_grace_exceeds_drain_and_pause(self):
        for seconds in (1, 15, 300):
            for _, pod in pods_of(chart.render(merged(REPLICATED, SECURE, {"drainSeconds": seconds}))):
                spec = pod["spec"]
                if "terminationGracePeriodSeconds" not in spec:
                    continue  # the test's pod
                pause = spec["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
                self.assertGreaterEqual(spec["terminationGracePeriodSeconds"], seconds + pause + 10)

    def test_followers_have_names_although_they_are_not_ready(self):
        stores = find(case("replicated secure"), "Service", "-stores")["spec"]
        self.assertIs(stores["publishNotReadyAddresses"], True)
        self.assertEqual(stores["clusterIP"], "None")
        self.assertEqual(find(case("replicated secure"), "StatefulSet", "-store")["spec"]["serviceName"], "it-escapement-stores")

    def test_stores_share_a_node_only_if_there_are_too_few(self):
        spec = find(case("replicated secure"), "StatefulSet", "-store")["spec"]
        taints = {"control": "NoSchedule"}
        for nodes, expected in ((["a"], [3]), (["a", "b"], [1, 2]), (["a", "b", "c", "d"], [1, 1, 1]), (["a", "control"], [3])):
            stores = placed(spec, nodes, taints)
            self.assertEqual(sorted(stores[node] for node in nodes if stores[node]), expected, nodes)
        _, zones = spec["template"]["spec"]["topologySpreadConstraints"]
        self.assertEqual((zones["topologyKey"], zones["whenUnsatisfiable"]), ("topology.kubernetes.io/zone", "ScheduleAnyway"))
        other = find(case("replicated secure"), "Deployment", "-handler")["spec"]["template"]["spec"]["topologySpreadConstraints"]
        self.assertEqual({each["whenUnsatisfiable"] for each in other}, {"ScheduleAnyway"})

    def test_autoscaling_replaces_the_number_of_pods(self):
        objects = case("replicated everything on")
        self.assertEqual(len([each for each in objects if each["kind"] == "HorizontalPodAutoscaler"]), 4)
        self.assertNotIn("replicas", find(objects, "Deployment", "-handler")["spec"])
        self.assertEqual(find(case("replicated secure"), "Deployment", "-handler")["spec"]["replicas"], 2)

    def test_a_change_of_the_configuration_restarts_the_pods(self):
        def checksums(values):
            return {pod["metadata"]["annotations"].get("checksum/config") for _, pod in pods_of(chart.render(values))
                    if "checksum/config" in pod["metadata"].get("annotations", {})}

        one, other = checksums(merged(REPLICATED, SECURE)), checksums(merged(REPLICATED, SECURE, {"config": {"emit_ahead": "9s"}}))
        self.assertEqual((len(one), len(other)), (1, 1))
        self.assertNotEqual(one, other)

    def test_an_upgrade_changes_only_what_may_change(self):
        """The API server refuses a change of these fields."""
        newer = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))) / "escapement"
        shutil.copytree(chart.CHART, newer, ignore=shutil.ignore_patterns("files"))
        facts = (newer / "Chart.yaml").read_text(encoding="utf-8")
        (newer / "Chart.yaml").write_text(facts.replace("ersion: 0.1.0", "ersion: 0.2.0"), encoding="utf-8")

        def fixed(objects):
            for each in objects:
                spec = each.get("spec", {})
                if each["kind"] == "StatefulSet":
                    free = ("minReadySeconds", "replicas", "template")
                    yield each["metadata"]["name"], {name: value for name, value in spec.items() if name not in free}
                if each["kind"] == "Deployment":
                    yield each["metadata"]["name"], spec["selector"]

        changes = {"commonLabels": {"team": "ops"}, "config": {"emit_ahead": "9s"}, "drainSeconds": 20, "store": {"replicas": 2}}
        for values in (merged(REPLICATED, SECURE), SECURE):
            before, after = chart.render(values), chart.render(merged(values, changes), chart=newer)
            self.assertEqual(dict(fixed(before)), dict(fixed(after)))
            self.assertNotEqual(before, after)

    def test_numbers_stay_whole(self):
        text = find(case("standalone everything on"), "ConfigMap", "escapement")["data"]["escapement.yaml"]
        self.assertIn("sqs_batch_bytes_max: 1048576\n", text)
        self.assertIn('emit_ahead: "10s"\n', text)
        self.assertIn("sqs_use_own_credentials: true", text)

    def test_the_test_of_failover_expects_all_stores(self):
        for name, stores in (("replicated secure", 3), ("replicated everything on", 2)):
            container = find(case(name), "Pod", "-failover-test")["spec"]["containers"][0]
            self.assertEqual(container["args"][-2:], ["doctor", f"--failover={stores}"])
        self.assertIsNone(find(case("standalone secure"), "Pod", "-failover-test"))

    def test_secrets_are_mounted_where_they_are_needed(self):
        mounts = {name: {volume["secret"]["secretName"] for volume in pod["spec"]["volumes"] if "secret" in volume}
                  for name, pod in pods_of(case("replicated everything on"))}
        tls = {"it-escapement-tls", "kafka"}
        self.assertEqual(mounts, {
            "it-escapement-store": tls | {"database"}, "it-escapement-master": tls | {"first-key", "secret-keys"},
            "it-escapement-emitter": tls, "it-escapement-handler": tls | {"secret-keys"},
            "it-escapement-token-manager": tls, "it-escapement-test": {"it-escapement-tls"},
            "it-escapement-failover-test": {"it-escapement-tls"}, "it-escapement-backup": {"it-escapement-tls"}})

    def test_each_secret_that_is_mounted_is_read(self):
        for name in CASES:
            config = find(case(name), "ConfigMap", "escapement" if name != "replicated IPv6" else "x")["data"]["escapement.yaml"]
            for pod, container in containers(case(name)):
                read = str([container.get("args"), container.get("env")]) + ("" if "escctl" in str(container.get("command")) else config)
                for mount in container.get("volumeMounts", []):
                    if mount["mountPath"].startswith("/etc/escapement/"):
                        self.assertIn(mount["mountPath"], read, f"{name}: {pod}")

    def test_the_certificate_has_the_names_that_are_called(self):
        names = set(find(case("replicated everything on"), "Certificate", "")["spec"]["dnsNames"])
        called = {"escapement-service", "jobs.example"}
        for _, container in containers(case("replicated everything on")):
            for word in container.get("args", []):
                for flag in ("--store=", "--advertise=", "--server="):
                    if word.startswith(flag):
                        called |= {address.rsplit(":", 1)[0] for address in word[len(flag):].split(",")}
        advertised = {name for name in called if "$(POD_NAME)" in name}
        called = called - advertised | {name.replace("$(POD_NAME)", f"it-escapement-store-{i}") for name in advertised for i in (0, 1)}
        self.assertEqual(called - names, set())

    def test_ingress_and_route_lead_to_the_api(self):
        objects = case("standalone everything on")
        paths = find(objects, "Ingress", "")["spec"]["rules"][0]["http"]["paths"]
        backend = paths[0]["backend"]["service"]
        service = find(objects, "Service", backend["name"])
        self.assertIn(backend["port"]["name"], {port["name"] for port in service["spec"]["ports"]})
        route = find(objects, "HTTPRoute", "")["spec"]["rules"][0]["backendRefs"][0]
        self.assertEqual(route["name"], service["metadata"]["name"])
        self.assertIn(route["port"], {port["port"] for port in service["spec"]["ports"]})
        # Metrics need no credentials, so they are not for everybody.
        self.assertEqual([path["path"] for path in paths], ["/v1", "/openapi.json", "/docs", "/ui"])
        matches = find(objects, "HTTPRoute", "")["spec"]["rules"][0]["matches"]
        self.assertEqual([match["path"]["value"] for match in matches], [path["path"] for path in paths])
        objects = case("replicated everything on")
        paths = find(objects, "Ingress", "")["spec"]["rules"][0]["http"]["paths"]
        self.assertEqual([path["path"] for path in paths], ["/v1", "/ui"])
        matches = find(objects, "HTTPRoute", "")["spec"]["rules"][0]["matches"]
        self.assertEqual([match["path"]["value"] for match in matches], ["/v1", "/ui"])

    def test_monitors_need_a_cluster_that_knows_them(self):
        self.assertIsNotNone(find(case("replicated secure"), "ServiceMonitor", ""))
        self.assertIsNone(find(case("replicated open"), "ServiceMonitor", ""))
        self.assertIsNone(find(case("replicated everything off"), "ServiceMonitor", ""))

    def rules(self, values):
        """The rules of the files, in order: the alerts and the recorded series."""
        objects = chart.render(merged(SECURE, {"metrics": {"rules": values}}), chart.MONITORING)
        groups = [group for each in objects if each["kind"] == "PrometheusRule" for group in each["spec"]["groups"]]
        return [rule for group in groups for rule in group["rules"]]

    def test_rules_without_changes_are_those_of_the_files(self):
        files = [chart.yaml.safe_load((chart.ROOT / f"deploy/prometheus/{name}.yaml").read_text(encoding="utf-8"))
                 for name in ("alerts", "recording_rules")]
        self.assertEqual(self.rules({}), [rule for file in files for group in file["groups"] for rule in group["rules"]])

    def test_each_threshold_and_severity_and_rule_can_be_changed(self):
        usual = self.rules({})
        thresholds = chart.yaml.safe_load((chart.CHART / "values.yaml").read_text(encoding="utf-8"))["metrics"]["rules"]["thresholds"]
        shares = {name: 0.123 if 0 < value < 0.2 else 1234567 for name, value in thresholds.items()}
        for rule, other in zip(usual, self.rules({"thresholds": shares})):
            said = re.findall(r"([0-9.]+) # value: (\w+)$", other["expr"], re.MULTILINE)
            self.assertEqual([float(number) for number, _ in said], [shares[name] for _, name in said])
            self.assertEqual(len(said), rule["expr"].count(" # value: "))
        changed = self.rules(chart.ON["metrics"]["rules"])
        alerts = [(rule["alert"], rule["labels"]["severity"], rule["for"]) for rule in changed if "alert" in rule]
        names = {"critical": "page", "warning": "ticket"}
        expected = [(rule["alert"], names[rule["labels"]["severity"]], rule["for"]) for rule in usual if "alert" in rule]
        self.assertEqual(alerts, [("EscapementDiskFull", "info", "4h") if each == ("EscapementDiskFull", "ticket", "2h") else each
                                  for each in expected if each[0] != "EscapementTargetDown"])
        for rule in changed:
            if "alert" in rule:
                self.assertEqual(rule["annotations"]["runbook_url"], f"http://wiki.example/{rule['alert']}.md")

    def test_one_rule_of_two_with_a_name_can_be_left_out(self):
        both = {"EscapementDiskFull": {"enabled": False}, "EscapementDiskFull/critical": {"enabled": True}}
        left = [rule["labels"]["severity"] for rule in self.rules({"alerts": both}) if rule.get("alert") == "EscapementDiskFull"]
        self.assertEqual(left, ["critical"])

    def test_rules_of_one_release_ask_for_no_other(self):
        usual, own = self.rules({}), self.rules({"onlyThisRelease": True})
        chosen = 'namespace="jobs",job="it"'
        for rule, other in zip(usual, own):
            series = re.findall(r"escapement_\w+(?::\w+)?[{]?", other["expr"])
            self.assertGreater(len(series), 0)
            self.assertEqual(other["expr"].count("{" + chosen), len(series), other["expr"])
            self.assertEqual(other["expr"].replace(chosen + ",", "").replace("{" + chosen + "}", ""), rule["expr"])

    def test_deleted_values_of_the_rules_are_the_defaults(self):
        for name in ("runbookUrl", "severities", "alerts", "thresholds"):
            self.assertEqual(self.rules({name: None}), self.rules({}), name)

    def test_dashboards_link_to_the_runbooks(self):
        data = find(case("standalone everything on"), "ConfigMap", "-overview-dashboard")["data"]["escapement-overview.json"]
        self.assertIn('"http://wiki.example/EscapementLatenessBurns.md"', data)
        self.assertNotIn("escapement.example", data)

    def test_network_policies_close_the_store(self):
        ingress = find(case("replicated secure"), "NetworkPolicy", "-store")["spec"]["ingress"]
        self.assertEqual([rule["ports"] for rule in ingress if "from" not in rule], [[{"port": "https"}]])
        peers = next(rule["from"] for rule in ingress if "from" in rule)
        self.assertEqual(peers[0]["podSelector"]["matchLabels"]["app.kubernetes.io/instance"], "it")

    def test_network_policies_let_all_pods_ask_dns(self):
        for name in ("standalone everything on", "replicated everything on"):
            for policy in [each for each in case(name) if each["kind"] == "NetworkPolicy"]:
                rules = policy["spec"]["egress"]
                for port in (53, 5353):  # OpenShift's DNS pods listen on 5353
                    for protocol in ("UDP", "TCP"):
                        asked = {"port": port, "protocol": protocol}
                        self.assertTrue(any(rule == {} or asked in rule["ports"] and "to" not in rule for rule in rules), policy["metadata"]["name"])

    def test_network_policies_let_escctl_reach_what_it_calls(self):
        for name, pods, called in (("standalone everything on", ("backup", "test"), ("standalone",)),
                                   ("replicated everything on", ("backup", "test", "failover-test"), ("master", "store"))):
            objects = case(name)
            labels = {pod_name: pod["metadata"]["labels"] for pod_name, pod in pods_of(objects)}

            def lets(rules, side, pod, labels=labels):
                return any({"port": "grpc"} in rule["ports"] and any(
                    peer["podSelector"].get("matchLabels", {"none": ""}).items() <= labels[f"it-escapement-{pod}"].items()
                    for peer in rule.get(side, [])) for rule in rules)

            for pod in pods:
                own = find(objects, "NetworkPolicy", f"-escapement-{pod}")["spec"]
                for server in called:
                    self.assertTrue(lets(own["egress"], "to", server), (name, pod, server))
                    theirs = find(objects, "NetworkPolicy", f"-{server}")["spec"]["ingress"]
                    self.assertTrue(lets(theirs, "from", pod), (name, pod, server))


WRONG = {
    "a mode that does not exist": ({"mode": "cluster"}, ["mode", "'standalone', 'replicated'"]),
    "an unknown value": ({"insecure": True, "replicaCount": 3}, ["replicaCount"]),
    "an unknown value inside": ({"insecure": True, "store": {"replica": 3}}, ["store", "replica"]),
    "one store": (merged(REPLICATED, SECURE, {"store": {"replicas": 1}}), ["store/replicas", "minimum"]),
    "a text for a number": ({"insecure": True, "drainSeconds": "15s"}, ["drainSeconds", "integer"]),
    "an unknown flag": ({"insecure": True, "config": {"emit_ahed": "5s"}}, ["config", "emit_ahed"]),
    "a flag that the chart sets": ({"insecure": True, "config": {"listen": "0.0.0.0:1"}}, ["config", "listen"]),
    "neither TLS nor insecure": ({}, ["tls.mode", "auth.requireCredentials", "insecure=true"]),
    "credentials without TLS": ({"auth": {"requireCredentials": True}}, ["tls.mode", "insecure=true"]),
    "no PostgreSQL": (merged(SECURE, {"mode": "replicated"}), ["store.postgresql.existingSecret"]),
    "replicated, keys without TLS": (
        merged(REPLICATED, {"insecure": True, "auth": {"requireCredentials": True}}), ["tls.mode", "mode=replicated"]),
    "no Secret for TLS": (merged(SECURE, {"tls": {"existingSecret": ""}}), ["tls.existingSecret"]),
    "no issuer": (merged(SECURE, {"tls": {"mode": "certManager", "existingSecret": ""}}), ["tls.certManager.issuerName"]),
    "a Secret that does not count": ({"insecure": True, "tls": {"existingSecret": "x"}}, ["tls.existingSecret counts only"]),
    "a key that does not count": (
        {"insecure": True, "auth": {"bootstrapKey": {"existingSecret": "x"}}}, ["auth.bootstrapKey.existingSecret counts only"]),
    "more pods at least than at most": (
        {"insecure": True, "handler": {"autoscaling": {"minReplicas": 9}}}, ["handler.autoscaling", "minReplicas (9)"]),
    "backups without a credential": (
        {"insecure": True, "auth": {"requireCredentials": True}, "backup": {"schedule": "@daily"}}, ["backup.schedule", "credential"]),
    "a schedule with four fields": ({"insecure": True, "backup": {"schedule": "17 3 * *"}}, ["backup/schedule"]),
    "an ingress without hosts": ({"insecure": True, "ingress": {"enabled": True}}, ["ingress.hosts"]),
    "a route without gateways": ({"insecure": True, "httpRoute": {"enabled": True}}, ["httpRoute.parentRefs"]),
}


class WrongValuesTest(unittest.TestCase):
    def test_alerts_that_do_not_exist_are_refused(self):
        for name in ("EscapementNoSuchAlert", "EscapementTargetDown/critical"):
            done = chart.template(merged(SECURE, {"metrics": {"rules": {"alerts": {name: {"enabled": False}}}}}), chart.MONITORING)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"there is no alert {name}", done.stderr)

    def test_each_is_refused_by_name(self):
        for name, (values, words) in WRONG.items():
            with self.subTest(name):
                done = chart.template(values)
                self.assertNotEqual(done.returncode, 0, done.stdout[:200])
                for word in words:
                    self.assertIn(word, done.stderr)

    def test_an_old_cluster_is_refused(self):
        done = chart.run("helm", "template", "it", str(chart.CHART), "--kube-version", "1.29.0", "--set", "insecure=true")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("1.29", done.stderr)


class NotesTest(unittest.TestCase):
    def notes(self, values):
        done = chart.run("helm", "install", "it", str(chart.CHART), "--namespace", "jobs", "--dry-run=client", "--values", "-",
                         text=chart.yaml.safe_dump(values))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split("\nNOTES:\n")[1]

    def test_they_tell_the_next_three_commands(self):
        for values in (SECURE, merged(REPLICATED, SECURE), {"insecure": True}):
            notes = self.notes(values)
            self.assertEqual(re.findall(r"^(\d)\. ", notes, re.MULTILINE), ["1", "2", "3"])
            for command in ("rollout status statefulset/it-escapement-", "helm test it --namespace jobs",
                            "port-forward service/it-escapement 7410 7411"):
                self.assertIn(command, notes)
            self.assertEqual("insecure=true" in notes, values.get("insecure", False))

    def test_they_warn_of_an_issuer_that_others_may_use(self):
        for kind in ("Issuer", "ClusterIssuer"):
            notes = self.notes(merged(SECURE, {"tls": {"existingSecret": ""}}, chart.CERTIFICATES, {"tls": {"certManager": {"issuerKind": kind}}}))
            self.assertEqual("Use an issuer for Escapement alone" in notes, kind == "ClusterIssuer")


if __name__ == "__main__":
    unittest.main()
