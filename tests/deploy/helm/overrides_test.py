"""What users can change beyond the values of the chart, and the cases that they do it for."""
import re
import unittest

import yaml

import chart
from chart import REPLICATED, SECURE, case, find, merged, pods_of
from strict_test import errors_of

BOTH = {"standalone": SECURE, "replicated": merged(REPLICATED, SECURE)}
KINDS = {"store": "store", "master": "master", "emitter": "emitter", "handler": "handler", "tokenManager": "token-manager"}
# Each setting of a kind of pods → a value, and where a pod then has it.
SETTINGS = {
    "annotations": ({"a": "b"}, lambda pod: pod["metadata"]["annotations"].get("a") == "b"),
    "labels": ({"a": "b"}, lambda pod: pod["metadata"]["labels"].get("a") == "b"),
    "nodeSelector": ({"a": "b"}, lambda pod: pod["spec"].get("nodeSelector") == {"a": "b"}),
    "tolerations": ([{"operator": "Exists"}], lambda pod: pod["spec"].get("tolerations") == [{"operator": "Exists"}]),
    "affinity": ({"podAffinity": {}}, lambda pod: pod["spec"].get("affinity") == {"podAffinity": {}}),
    "priorityClassName": ("high", lambda pod: pod["spec"].get("priorityClassName") == "high"),
    "extraEnv": ([{"name": "A", "value": "b"}], lambda pod: {"name": "A", "value": "b"} in program(pod).get("env", [])),
    "extraEnvFrom": ([{"secretRef": {"name": "a"}}], lambda pod: program(pod).get("envFrom") == [{"secretRef": {"name": "a"}}]),
    "extraVolumes": ([{"name": "a", "emptyDir": {}}], lambda pod: {"name": "a", "emptyDir": {}} in pod["spec"].get("volumes", [])),
    "extraVolumeMounts": ([{"name": "config", "mountPath": "/a"}],
                          lambda pod: {"name": "config", "mountPath": "/a"} in program(pod).get("volumeMounts", [])),
    "initContainers": ([{"name": "a", "image": "b"}], lambda pod: pod["spec"].get("initContainers", [])[:1] == [{"name": "a", "image": "b"}]),
    "sidecars": ([{"name": "a", "image": "b"}], lambda pod: pod["spec"]["containers"][1:] == [{"name": "a", "image": "b"}]),
    "probes": ({"liveness": {"periodSeconds": 77}}, lambda pod: program(pod).get("livenessProbe", {}).get("periodSeconds") == 77),
    "securityContext": ({"runAsUser": 7}, lambda pod: pod["spec"]["securityContext"].get("runAsUser") == 7),
    "containerSecurityContext": ({"runAsUser": 7}, lambda pod: program(pod)["securityContext"].get("runAsUser") == 7),
    "dnsPolicy": ("Default", lambda pod: pod["spec"].get("dnsPolicy") == "Default"),
    "dnsConfig": ({"searches": ["a"]}, lambda pod: pod["spec"].get("dnsConfig") == {"searches": ["a"]}),
}


def program(pod):
    return pod["spec"]["containers"][0]


def rendered(values, knows=()):
    objects = chart.render(values, knows)
    return objects, dict(pods_of(objects))


def chart_settings(kind):
    return yaml.safe_load((chart.CHART / "values.schema.json").read_text(encoding="utf-8"))["definitions"][kind]["properties"]


class SettingsTest(unittest.TestCase):
    def test_each_setting_of_pods_reaches_the_pods_that_it_names(self):
        schema = yaml.safe_load((chart.CHART / "values.schema.json").read_text(encoding="utf-8"))["definitions"]
        self.assertEqual(set(SETTINGS), set(schema["pod"]["properties"]))
        for name, (value, has) in SETTINGS.items():
            for_test = name in schema["testPod"]["properties"]
            _, pods = rendered(merged(BOTH["replicated"], {"pod": {name: value}}))
            self.assertEqual({pod for pod in pods if has(pods[pod])},
                             {f"it-escapement-{kind}" for kind in (*KINDS.values(), *(["test", "failover-test"] if for_test else []))}, name)
            objects, pods = rendered(merged(BOTH["replicated"], {"handler": {"pod": {name: value}}}))
            self.assertEqual([pod for pod in pods if has(pods[pod])], ["it-escapement-handler"], name)
            self.assertEqual(errors_of(objects), [], name)
            if for_test:
                _, pods = rendered(merged(BOTH["standalone"], {"test": {"pod": {name: value}}}))
                self.assertEqual([pod for pod in pods if has(pods[pod])], ["it-escapement-test"], name)

    def test_each_kind_of_pods_has_settings_and_an_account_of_its_own(self):
        for key, kind in (*KINDS.items(), ("standalone", "standalone")):
            values = BOTH["standalone" if key == "standalone" else "replicated"]
            own = {"pod": {"annotations": {"a": "b"}}, "serviceAccount": {"create": True, "annotations": {"role": "x"}}}
            objects, pods = rendered(merged(values, {key: own}))
            name = f"it-escapement-{kind}"
            self.assertEqual([pod for pod in pods if pods[pod]["metadata"]["annotations"].get("a") == "b"], [name])
            self.assertEqual([pod for pod in pods if pods[pod]["spec"]["serviceAccountName"] == name], [name])
            self.assertEqual(find(objects, "ServiceAccount", name)["metadata"]["annotations"], {"role": "x"})
            _, pods = rendered(merged(values, {key: {"serviceAccount": {"name": "given"}}}))
            self.assertEqual([pod for pod in pods if pods[pod]["spec"]["serviceAccountName"] == "given"], [name])

    def test_backups_have_settings_an_account_and_a_claim_of_their_own(self):
        backup = {"schedule": "@daily", "keep": 3, "deadlineSeconds": 60, "serviceAccount": {"create": True, "annotations": {"role": "x"}}}
        for mode in BOTH.values():
            objects, pods = rendered(merged(mode, {"backup": backup}))
            self.assertEqual(errors_of(objects), [])
            job = find(objects, "CronJob", "-backup")["spec"]
            self.assertEqual((job["schedule"], job["timeZone"], job["concurrencyPolicy"]), ("@daily", "Etc/UTC", "Forbid"))
            self.assertEqual(job["jobTemplate"]["spec"]["activeDeadlineSeconds"], 60)
            pod = pods["it-escapement-backup"]
            self.assertIn("--keep=3", program(pod)["args"])
            self.assertEqual(pod["spec"]["serviceAccountName"], "it-escapement-backup")
            self.assertEqual(find(objects, "ServiceAccount", "-backup")["metadata"]["annotations"], {"role": "x"})
            claim = find(objects, "PersistentVolumeClaim", "-backup")
            self.assertEqual(claim["metadata"]["annotations"], {"helm.sh/resource-policy": "keep"})
            volume = pod["spec"]["volumes"][0]
            self.assertEqual(volume, {"name": "backups", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}})
            objects, pods = rendered(merged(mode, {"backup": backup}, {"backup": {"persistence": {"existingClaim": "old"}}}))
            self.assertIsNone(find(objects, "PersistentVolumeClaim", ""))
            self.assertEqual(pods["it-escapement-backup"]["spec"]["volumes"][0]["persistentVolumeClaim"], {"claimName": "old"})
            for name, (value, has) in SETTINGS.items():
                if name in chart_settings("testPod"):
                    _, pods = rendered(merged(mode, {"backup": backup}, {"backup": {"pod": {name: value}}}))
                    self.assertTrue(has(pods["it-escapement-backup"]), name)
            self.assertNotIn("it-escapement-backup", rendered(mode)[1])

    def test_backups_go_to_a_bucket_instead_of_a_volume(self):
        s3 = {"bucket": "my-backups", "region": "eu-central-1", "credentialsSecret": "s3-keys"}
        for mode in BOTH.values():
            objects, pods = rendered(merged(mode, {"backup": {"schedule": "@daily", "s3": s3}}))
            self.assertEqual(errors_of(objects), [])
            self.assertIsNone(find(objects, "PersistentVolumeClaim", "-backup"))
            pod = pods["it-escapement-backup"]["spec"]
            self.assertNotIn("persistentVolumeClaim", str(pod))
            arguments = pod["containers"][0]["args"]
            at = arguments.index("export")
            self.assertEqual(arguments[at + 1:], ["s3://my-backups/jobs/it-escapement", "--keep=7", "--s3-region=eu-central-1"])
            keys = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in pod["containers"][0]["env"]}
            self.assertEqual(keys, {name: {"name": "s3-keys", "key": name} for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")})
            # A role of the account, and another service than AWS.
            for endpoint, ports in (("", [443]), ("https://minio", [443]), ("http://minio", [80, 443]), ("http://minio:9000", [9000, 443])):
                role = {"serviceAccount": {"create": True, "annotations": {"eks.amazonaws.com/role-arn": "arn"}},
                        "schedule": "@daily", "s3": {"bucket": "my-backups", "prefix": "a/b", "endpoint": endpoint}}
                objects, pods = rendered(merged(mode, {"backup": role, "networkPolicy": {"extraEgress": [{"ports": [{"port": 7}]}]}}))
                pod = pods["it-escapement-backup"]["spec"]
                self.assertEqual(pod["serviceAccountName"], "it-escapement-backup")
                self.assertNotIn("env", pod["containers"][0])
                self.assertIn("s3://my-backups/a/b", pod["containers"][0]["args"])
                self.assertEqual(f"--s3-endpoint={endpoint}" in pod["containers"][0]["args"], endpoint != "")
                egress = find(objects, "NetworkPolicy", "-escapement-backup")["spec"]["egress"]
                everywhere = [[port["port"] for port in rule["ports"]] for rule in egress if "to" not in rule]
                self.assertEqual(everywhere, [[53, 53, 5353, 5353], ports, [7]])
            objects, _ = rendered(merged(mode, {"backup": {"schedule": "@daily"}}))
            egress = find(objects, "NetworkPolicy", "-escapement-backup")["spec"]["egress"]
            self.assertEqual([[port["port"] for port in rule["ports"]] for rule in egress], [[53, 53, 5353, 5353], ["grpc"]])

    def test_own_settings_are_merged_over_those_of_all_pods(self):
        handler = find(case("replicated everything on"), "Deployment", "-handler")["spec"]["template"]
        self.assertEqual(handler["spec"]["nodeSelector"], {"zone": "a"})
        self.assertEqual([entry for entry in program(handler)["env"] if entry["name"] == "AWS_REGION"],
                         [{"name": "AWS_REGION", "value": "us-east-1"}])
        emitter = find(case("replicated everything on"), "Deployment", "-emitter")["spec"]["template"]
        self.assertEqual(emitter["spec"]["nodeSelector"], {"disk": "ssd"})
        probes = program(emitter)
        self.assertEqual((probes["startupProbe"]["failureThreshold"], probes["startupProbe"]["periodSeconds"]), (1000, 2))
        self.assertEqual(probes["readinessProbe"]["httpGet"]["path"], "/readyz")

    def test_the_service_has_further_fields(self):
        service = find(case("replicated everything on"), "Service", "it-escapement")
        self.assertEqual(service["spec"]["loadBalancerSourceRanges"], ["192.0.2.0/24"])
        self.assertEqual(service["metadata"]["labels"]["i"], "j")

    def test_targets_and_series_are_relabeled(self):
        endpoint = find(case("replicated everything on"), "ServiceMonitor", "")["spec"]["endpoints"][0]
        self.assertEqual([each["targetLabel"] for each in endpoint["relabelings"]], ["component", "stage"])
        self.assertEqual([each["action"] for each in endpoint["metricRelabelings"]], ["drop"])

    def test_a_registry_for_all_images(self):
        for _, pod in pods_of(case("replicated everything on")):
            for container in pod["spec"]["containers"]:
                if container["name"] != "beside":
                    self.assertTrue(container["image"].startswith("mirror.example/escapement@sha256:"), container["image"])

    def test_an_existing_claim_holds_the_data(self):
        objects, pods = rendered(merged(SECURE, {"standalone": {"persistence": {"existingClaim": "old"}}}))
        self.assertEqual(errors_of(objects), [])
        self.assertNotIn("volumeClaimTemplates", find(objects, "StatefulSet", "-standalone")["spec"])
        self.assertIn({"name": "data", "persistentVolumeClaim": {"claimName": "old"}}, pods["it-escapement-standalone"]["spec"]["volumes"])

    def test_a_growing_volume_changes_only_the_template_of_claims(self):
        """So the pods that the steps of docs/operations/kubernetes.md leave behind are those of the new StatefulSet."""
        for values, key in ((BOTH["standalone"], "standalone"), (BOTH["replicated"], "store")):
            before, after = (find(chart.render(merged(values, {key: {"persistence": {"size": size}}})), "StatefulSet", f"-{key}")
                             for size in ("20Gi", "50Gi"))
            self.assertEqual(after["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"], {"storage": "50Gi"})
            after["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = "20Gi"
            self.assertEqual(before, after)


class MergeTest(unittest.TestCase):
    def test_each_object_can_be_changed(self):
        for name in ("replicated everything on", "standalone everything on"):
            values, knows = chart.CASES[name]
            values = merged(values, {"extraObjects": []})
            del values["merge"]
            objects = chart.render(values, knows)
            keys = [key(each) for each in objects]
            self.assertEqual(len(keys), len(set(keys)))
            changed = chart.render(merged(values, {"merge": {each: {"metadata": {"annotations": {"changed": each}}} for each in keys}}), knows)
            self.assertEqual([each["metadata"]["annotations"]["changed"] for each in changed], [key(each) for each in changed])
            for each in changed:
                del each["metadata"]["annotations"]["changed"]
            for each in [each for each in changed + objects if not each["metadata"].get("annotations")]:
                each["metadata"].pop("annotations", None)
            self.assertEqual({key(each): each for each in changed}, {key(each): each for each in objects})

    def test_null_removes_and_names_are_merged(self):
        over = {"spec": {"strategy": {"rollingUpdate": None, "type": "Recreate"}, "template": {"spec": {"containers": [
            {"name": "handler", "terminationMessagePolicy": "FallbackToLogsOnError", "resources": {"limits": None}},
            {"name": "beside", "image": "registry/beside"}]}}}}
        objects = chart.render(merged(BOTH["replicated"], {"merge": {"Deployment/handler": over, "Service": {"spec": {"ports": [
            {"name": "grpc", "appProtocol": "grpc"}]}}}}))
        self.assertEqual(errors_of(objects), [])
        spec = find(objects, "Deployment", "-handler")["spec"]
        self.assertEqual(spec["strategy"], {"type": "Recreate"})
        handler, beside = spec["template"]["spec"]["containers"]
        self.assertEqual(handler["resources"], {"requests": {"cpu": "200m", "memory": "256Mi"}})
        self.assertIn("args", handler)
        self.assertEqual(beside, {"name": "beside", "image": "registry/beside"})
        ports = find(objects, "Service", "it-escapement")["spec"]["ports"]
        self.assertEqual([(port["name"], port["port"], port["appProtocol"]) for port in ports], [("grpc", 7410, "grpc"), ("https", 7411, "https")])

    def test_numbers_stay_whole(self):
        over = {"StatefulSet/standalone": {"spec": {"template": {"spec": {"securityContext": {"fsGroup": 1000700000}}}}}}
        text = chart.template(merged(SECURE, {"merge": over})).stdout
        self.assertIn("fsGroup: 1000700000\n", text)
        self.assertNotRegex(text, r"\de\+\d")

    def test_an_object_that_is_not_there_is_refused(self):
        for values, name in ((BOTH["standalone"], "Deployment/handler"), (BOTH["replicated"], "Deployment/handlers"),
                             (BOTH["replicated"], "Ingress"), (BOTH["replicated"], "handler")):
            done = chart.template(merged(values, {"merge": {name: {"spec": {}}}}))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(name, done.stderr)

    def test_further_objects_are_literal_or_templates(self):
        objects = case("standalone everything on")
        self.assertEqual(find(objects, "ConfigMap", "extra")["data"], {"text": "{{ literally }}"})
        self.assertTrue(find(objects, "ConfigMap", "it-escapement-more"))


def key(each):
    name = each["metadata"]["name"]
    return each["kind"] if name == "it-escapement" else f"{each['kind']}/{re.sub('^it-escapement-', '', name)}"


TYPOS = {
    "pod.toleration": [], "pod.probes.startup.period": 1, "pod.securityContext.runAsUsers": 1, "pod.containerSecurityContext.privilege": True,
    "pod.extraEnv": [{"name": "A", "values": "b"}], "pod.sidecars": [{"name": "a", "image": "b", "volumeMount": []}],
    "pod.initContainers": [{"image": "b"}], "pod.dnsConfig.nameserver": [], "pod.affinity.nodeAffinities": {},
    "pod.tolerations": [{"keys": "a"}], "pod.extraVolumes": [{"name": "a"}], "pod.extraVolumeMounts": [{"name": "a"}],
    "pod.extraEnvFrom": [{"secret": "a"}], "handler.pod.nodeSelectors": {}, "handler.serviceAccount.annotation": {},
    "handler.autoscaling.behavior.down": {}, "handler.autoscaling.metric": [], "service.spec.loadBalancerSourceRange": [],
    "service.spec.ports": [], "store.persistence.existingClaim": "a", "test.pod.sidecars": [], "backup.pod.sidecars": [], "backup.retention": 1, "backup.persistence.sizes": "1Gi", "backup.s3.buckets": "abc", "backup.s3.endpoint": "minio:9000", "backup.s3.prefix": "a.snapshot", "grpcRoute.hosts": [], "global.imageRegistry": 1,
    "metrics.serviceMonitor.relabelings": [{"source": "a"}], "extraObjects": [{}], "extraObject": [], "merge.Deployment/handler": {},
}
WRONG = {
    "roles of an account that is not made": ({"handler": {"serviceAccount": {"annotations": {"a": "b"}}}}, "handler.serviceAccount.create=true"),
    "a claim without persistence": ({"standalone": {"persistence": {"enabled": False, "existingClaim": "a"}}}, "existingClaim counts only"),
    "authorities without a key": ({"store": {"postgresql": {"caSecret": "a"}}}, "caSecret needs store.postgresql.caKey"),
    "autoscaling by nothing": (
        {"handler": {"autoscaling": {"enabled": True, "targetCPUUtilizationPercentage": None}}}, "handler.autoscaling.enabled"),
    "a route of gRPC without gateways": ({"grpcRoute": {"enabled": True}}, "grpcRoute.parentRefs"),
    "a bucket and a volume": (
        {"backup": {"s3": {"bucket": "abc"}, "persistence": {"existingClaim": "a"}}}, "not to both"),
    "a prefix without a bucket": ({"backup": {"s3": {"prefix": "a"}}}, "needs backup.s3.bucket"),
    "keys without a region": ({"backup": {"s3": {"bucket": "abc", "credentialsSecret": "a"}}}, "needs backup.s3.region"),
    "two routes for one name": (
        {"grpcRoute": {"enabled": True, "parentRefs": [{"name": "a"}], "hostnames": ["a.b"]},
         "httpRoute": {"enabled": True, "parentRefs": [{"name": "a"}], "hostnames": ["a.b"]}}, "both have a.b"),
}


class TyposTest(unittest.TestCase):
    def test_each_typo_is_refused_by_name(self):
        for where, value in TYPOS.items():
            with self.subTest(where):
                for name in reversed(where.split(".")):
                    value = {name: value}
                done = chart.template(merged(SECURE, value))
                self.assertNotEqual(done.returncode, 0, where)
                self.assertIn(re.split("[./]", where)[-1], done.stderr)

    def test_values_that_contradict_each_other_are_refused(self):
        for name, (values, words) in WRONG.items():
            with self.subTest(name):
                done = chart.template(merged(SECURE, values))
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)


class CasesTest(unittest.TestCase):
    def test_cloud_sql_has_its_proxy_beside_the_stores_alone(self):
        pods = dict(pods_of(case("Cloud SQL")))
        with_proxy = [name for name, pod in pods.items() if "cloud-sql-proxy" in str(pod)]
        self.assertEqual(with_proxy, ["it-escapement-store"])
        proxy = pods["it-escapement-store"]["spec"]["initContainers"][0]
        self.assertEqual(proxy["restartPolicy"], "Always")  # it runs beside the store, and is there before it
        ports = [port["port"] for rule in find(case("Cloud SQL"), "NetworkPolicy", "-store")["spec"]["egress"] for port in rule["ports"]]
        self.assertLessEqual({443, 3307}, set(ports))

    def test_only_handlers_have_the_role(self):
        objects = case("IRSA for handlers")
        roles = [each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount" and "annotations" in each["metadata"]]
        self.assertEqual(roles, ["it-escapement-handler"])
        self.assertEqual([name for name, pod in pods_of(objects) if pod["spec"]["serviceAccountName"] in roles], ["it-escapement-handler"])

    def test_istio_knows_protocols_and_gets_its_labels(self):
        objects = case("Istio")
        for name, pod in pods_of(objects):
            self.assertEqual(pod["metadata"]["labels"]["sidecar.istio.io/inject"], "false" if name.endswith("-test") else "true")
        rule = find(objects, "PeerAuthentication", "")
        store = dict(pods_of(objects))["it-escapement-store"]
        self.assertLessEqual(rule["spec"]["selector"]["matchLabels"].items(), store["metadata"]["labels"].items())
        self.assertEqual(store["metadata"]["annotations"]["traffic.sidecar.istio.io/excludeOutboundPorts"], "5432")

    def test_keda_scales_a_deployment_that_has_no_number(self):
        target = find(case("KEDA"), "ScaledObject", "")["spec"]["scaleTargetRef"]["name"]
        self.assertNotIn("replicas", find(case("KEDA"), "Deployment", target)["spec"])

    def test_the_secrets_of_cloudnativepg_fit(self):
        store = dict(pods_of(case("CloudNativePG")))["it-escapement-store"]
        env = {entry["name"]: entry for entry in program(store)["env"]}
        self.assertEqual(env["ESCAPEMENT_REPLICATE_THROUGH"]["valueFrom"]["secretKeyRef"], {"name": "jobs-app", "key": "uri"})
        volume = next(each for each in store["spec"]["volumes"] if each["name"] == "postgresql")
        self.assertEqual(volume["secret"]["secretName"], "jobs-ca")
        # The URL says nothing of certificates, so libpq takes these.
        self.assertEqual(env["PGSSLMODE"]["value"], "verify-full")
        mount = next(each for each in program(store)["volumeMounts"] if each["name"] == "postgresql")
        self.assertEqual(env["PGSSLROOTCERT"]["value"], f"{mount['mountPath']}/{volume['secret']['items'][0]['path']}")


class BalanceTest(unittest.TestCase):
    def test_each_pod_of_the_api_has_an_address(self):
        for name in ("standalone secure", "replicated secure"):
            objects = case(name)
            service, headless = find(objects, "Service", "it-escapement")["spec"], find(objects, "Service", "-headless")["spec"]
            self.assertEqual(headless["clusterIP"], "None")
            self.assertNotIn("publishNotReadyAddresses", headless)
            self.assertEqual((headless["selector"], headless["ports"]), (service["selector"], service["ports"]))

    def test_every_port_names_its_protocol(self):
        for name, grpc, http in (("replicated open", "kubernetes.io/h2c", "http"), ("replicated secure", "https", "https")):
            for each in case(name):
                if each["kind"] == "Service":
                    for port in each["spec"]["ports"]:
                        self.assertEqual(port["appProtocol"], grpc if port["name"] == "grpc" else http, each["metadata"]["name"])

    def test_a_route_of_grpc_leads_to_the_api(self):
        objects = case("replicated everything on")
        route = find(objects, "GRPCRoute", "")["spec"]
        backend = route["rules"][0]["backendRefs"][0]
        service = find(objects, "Service", backend["name"])
        self.assertEqual([port["name"] for port in service["spec"]["ports"] if port["port"] == backend["port"]], ["grpc"])
        self.assertEqual(route["hostnames"], ["grpc.jobs.example"])
        self.assertEqual(route["parentRefs"], [{"name": "public"}])


if __name__ == "__main__":
    unittest.main()
