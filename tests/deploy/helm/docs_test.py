"""The commands and the objects of docs/operations/kubernetes.md, the commands of the chart's page, and what
docs/operations/backup.md says of the chart."""
import ipaddress
import json
import pathlib
import re
import shlex
import unittest
import urllib.parse

import yaml

import chart
from strict_test import errors_of, folder

TEXT = (chart.ROOT / "docs/operations/kubernetes.md").read_text(encoding="utf-8")
BACKUP = (chart.ROOT / "docs/operations/backup.md").read_text(encoding="utf-8")
MONITORING = (chart.ROOT / "docs/operations/monitoring.md").read_text(encoding="utf-8")


def blocks(language, text=TEXT):
    """The blocks of code, also those inside lists."""
    for indent, block in re.findall(rf"^( *)```{language}\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
        yield re.sub(rf"^{indent}", "", block, flags=re.MULTILINE)


def helm_commands():
    """Each one that renders the chart. One that is cut short would be refused: what no test runs, may be wrong."""
    text = TEXT + (chart.CHART / "README.md").read_text(encoding="utf-8")
    lines = [line for block in blocks("sh", text) for line in block.replace("\\\n", " ").splitlines()]
    for line in lines + re.findall(r"`((?:tools/lib/)?helm (?:install|upgrade|template) [^`]*)`", text):
        words = shlex.split(line)
        if words[:1] in (["helm"], ["tools/lib/helm"]) and words[1] in ("install", "upgrade", "template"):
            yield words


def secrets_made():
    """The Secrets that the page makes: name → key → value, or the file with it."""
    made = {}
    for line in (line for block in blocks("sh") for line in block.replace("\\\n", " ").splitlines() if " create secret generic " in line):
        words = shlex.split(line)
        options = [word.partition("=")[2] for word in words if word.startswith("--from-")]
        made[words[words.index("generic") + 1]] = {each.partition("=")[0]: each.partition("=")[2] for each in options}
    return made


class DocsTest(unittest.TestCase):
    def setUp(self):
        self.values = pathlib.Path(folder(), "values.yaml")
        self.values.write_text(yaml.safe_dump(chart.PRODUCTION), encoding="utf-8")

    def test_the_commands_of_helm_render(self):
        commands = list(helm_commands())
        self.assertGreaterEqual(len(commands), 5)
        replaced = {"deploy/helm/escapement": str(chart.CHART), "values.yaml": str(self.values)}
        for words in commands:
            with self.subTest(" ".join(words)):
                options = [replaced.get(word, word) for word in words[2:] if word != "--create-namespace"]
                done = chart.run("helm", "template", *options)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(errors_of([each for each in yaml.safe_load_all(done.stdout) if each]), [])

    def test_the_values_of_monitoring_change_the_alerts(self):
        values = yaml.safe_load(re.search(r"```yaml\n(metrics:\n.*?)```", MONITORING, re.DOTALL)[1])
        objects = chart.render(chart.merged(chart.SECURE, values), chart.MONITORING)
        self.assertEqual(errors_of(objects), [])
        rules = [rule for each in objects if each["kind"] == "PrometheusRule" for group in each["spec"]["groups"] for rule in group["rules"]]
        alerts = {(rule["alert"], rule["labels"]["severity"]) for rule in rules if "alert" in rule}
        self.assertNotIn("EscapementTargetDown", {name for name, _ in alerts})
        self.assertEqual({severity for _, severity in alerts}, {"page", "ticket"})
        self.assertIn("> 14.4 * 0.005 ", "".join(rule["expr"] for rule in rules))

    def test_the_page_copies_the_example_that_the_tests_render(self):
        copies = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("cp ")]
        self.assertEqual(copies, [f"cp deploy/helm/escapement/{chart.EXAMPLE.relative_to(chart.CHART)} values.yaml"])

    def test_the_example_has_all_parts_of_an_installation(self):
        objects = chart.render(chart.PRODUCTION, chart.MONITORING, release="escapement")
        self.assertEqual(errors_of(objects), [])
        ingress = chart.find(objects, "Ingress", "")
        self.assertEqual(ingress["spec"]["tls"], [{"secretName": "jobs-example-tls", "hosts": ["jobs.example"]}])
        self.assertEqual(ingress["metadata"]["annotations"], {
            "nginx.ingress.kubernetes.io/backend-protocol": "HTTPS", "nginx.ingress.kubernetes.io/proxy-body-size": "12m"})
        self.assertEqual([path["path"] for path in ingress["spec"]["rules"][0]["http"]["paths"]], ["/v1", "/ui"])
        for kind in ("ServiceMonitor", "PrometheusRule"):
            found = [each["metadata"]["labels"]["release"] for each in objects if each["kind"] == kind]
            self.assertEqual(set(found), {"prometheus"}, kind)
        self.assertTrue(chart.find(objects, "ConfigMap", "-overview-dashboard"))
        self.assertTrue(chart.find(objects, "CronJob", "escapement-backup"))
        self.assertTrue(chart.find(objects, "Certificate", "escapement"))
        for policy in [each for each in objects if each["kind"] == "NetworkPolicy" and not each["metadata"]["name"].endswith("-master")]:
            self.assertEqual([rule for rule in policy["spec"]["ingress"] if "from" not in rule], [], policy["metadata"]["name"])

    def test_the_example_leaves_nothing_open_that_it_could_close(self):
        self.assertNotIn("insecure", chart.PRODUCTION)
        self.assertIs(chart.PRODUCTION["auth"]["requireCredentials"], True)
        for network in chart.PRODUCTION["config"]["delivery_allowed_addresses"].split(","):
            self.assertLessEqual(ipaddress.ip_network(network).num_addresses, 256, network)
        text = chart.template(chart.PRODUCTION, chart.MONITORING).stdout
        self.assertIn(f"runbook_url: {chart.PRODUCTION['metrics']['rules']['runbookUrl']}EscapementDiskFull.md", text)
        self.assertNotIn("escapement.example", text)  # the default, which leads nowhere

    def test_the_secrets_of_the_commands_are_those_of_the_example(self):
        made = secrets_made()
        named = {each["secret"]["secretName"] for _, pod in chart.pods_of(chart.render(chart.PRODUCTION, release="escapement"))
                 for each in pod["spec"]["volumes"] if "secret" in each}
        self.assertEqual(set(made), named - {"escapement-tls"})  # cert-manager makes that one
        postgresql = chart.PRODUCTION["store"]["postgresql"]
        url = urllib.parse.urlsplit(made[postgresql["existingSecret"]]["url"])
        self.assertIn(postgresql["caKey"], made[postgresql["existingSecret"]])
        store = chart.find(chart.render(chart.PRODUCTION), "StatefulSet", "-store")["spec"]["template"]["spec"]["containers"][0]
        env = {entry["name"]: entry.get("value") for entry in store["env"]}
        self.assertEqual(dict(urllib.parse.parse_qsl(url.query)), {"sslmode": env["PGSSLMODE"], "sslrootcert": env["PGSSLROOTCERT"]})

    def test_the_command_that_builds_the_image_knows_its_arguments(self):
        command = shlex.split(next(line for block in blocks("sh") for line in block.splitlines() if line.startswith("docker build ")))
        text = (chart.ROOT / command[command.index("--file") + 1]).read_text(encoding="utf-8")
        arguments = [command[i + 1].partition("=")[0] for i, word in enumerate(command) if word == "--build-arg"]
        self.assertEqual(set(arguments) - set(re.findall(r"^ARG (\w+)", text, re.MULTILINE)), set())
        self.assertLessEqual(set(re.findall(r"^ARG (\w+)$", text, re.MULTILINE)), set(arguments))  # those without a default
        image = command[command.index("--tag") + 1]
        self.assertEqual(image, f"{chart.PRODUCTION['image']['repository']}:{chart.PRODUCTION['image']['tag']}")

    def test_the_command_with_api_versions_shows_the_kinds_of_the_operator(self):
        command = next(words for words in helm_commands() if "--api-versions" in words)
        done = chart.run("helm", *[str(chart.CHART) if word == "deploy/helm/escapement" else word for word in command[1:]])
        kinds = {each["kind"] for each in yaml.safe_load_all(done.stdout) if each}
        self.assertLessEqual({"ServiceMonitor", "PrometheusRule"}, kinds)

    def test_the_objects_that_the_commands_name_exist(self):
        objects = chart.render(chart.PRODUCTION, release="escapement")
        names = {"escapement-tls"} | {each["metadata"]["name"] for each in objects} | {
            each["metadata"]["name"] for each in chart.render({"insecure": True}, release="escapement")}
        for name in ("escapement-metrics", "escapement-standalone", "escapement-stores", "escapement-tls"):
            self.assertIn(name, TEXT)
            self.assertIn(name, names)
        self.assertEqual(chart.find(objects, "Certificate", "escapement")["spec"]["secretName"], "escapement-tls")
        certificate = chart.find(objects, "Certificate", "escapement")["spec"]["dnsNames"]
        for name in ("escapement-service", "escapement.jobs.svc", "escapement-headless.jobs.svc", "escapement-store-0.escapement-stores.jobs.svc"):
            self.assertIn(f"`{name}`", TEXT)
            self.assertIn(name, certificate)

    def test_each_recipe_renders_over_the_values(self):
        recipes = [block for block in blocks("yaml") if block.startswith("# ")]
        self.assertEqual(len(recipes), 7)
        plain = chart.render(chart.PRODUCTION, release="escapement")
        for block in recipes:
            with self.subTest(block.splitlines()[0]):
                objects = chart.render(chart.merged(chart.PRODUCTION, yaml.safe_load(block)), release="escapement")
                self.assertEqual(errors_of(objects), [])
                self.assertNotEqual(objects, plain)
                for each in objects:
                    if each["kind"] == "ScaledObject":
                        self.assertTrue(chart.find(objects, "Deployment", each["spec"]["scaleTargetRef"]["name"]))

    def test_the_claims_that_grow_are_those_of_the_statefulsets(self):
        for values, kind, count in ((chart.PRODUCTION, "store", 3), ({"insecure": True}, "standalone", 1)):
            owner = chart.find(chart.render(values, release="escapement"), "StatefulSet", f"-{kind}")
            self.assertEqual(owner["spec"]["replicas"], count)
            claim = f"{owner['spec']['volumeClaimTemplates'][0]['metadata']['name']}-{owner['metadata']['name']}-"
            self.assertIn(f'"{claim}$i"' if count > 1 else f"`{claim}0`", TEXT)
            self.assertIn(f"statefulset {owner['metadata']['name']} --cascade=orphan" if count > 1 else f"`{owner['metadata']['name']}`", TEXT)

    def test_the_default_volume_holds_the_example_of_sizing(self):
        text = (chart.ROOT / "docs/operations/sizing.md").read_text(encoding="utf-8")
        example = re.search(r"take ([\d.]+) GB of disk, their outcomes .*= ([\d.]+) GB", text)
        factor = re.search(r"disk \| (\d) × the sum of the table above", text)
        needed = int(factor[1]) * sum(map(float, example.groups())) * 1e9
        for values, kind in ((chart.PRODUCTION, "store"), ({"insecure": True}, "standalone")):
            claim = chart.find(chart.render(values), "StatefulSet", f"-{kind}")["spec"]["volumeClaimTemplates"][0]
            size = re.fullmatch(r"(\d+)Gi", claim["spec"]["resources"]["requests"]["storage"])
            self.assertGreaterEqual(int(size[1]) * 2**30, needed, kind)

    def test_the_issuer_fits_the_openapi(self):
        objects = [each for block in blocks("yaml") if block.startswith("apiVersion") for each in yaml.safe_load_all(block)]
        self.assertEqual(len(objects), 3)
        self.assertEqual(errors_of(objects), [])


# The values of the page for backups to a volume and to S3.
VOLUME, BUCKET = map(yaml.safe_load, blocks("yaml", BACKUP))


class BackupTest(unittest.TestCase):
    def test_the_values_are_part_of_the_example(self):
        self.assertEqual(chart.merged(chart.PRODUCTION, VOLUME), chart.PRODUCTION)

    def test_the_restore_writes_where_the_store_reads(self):
        for volumes, s3 in ((), False), (("backups",), False), ((), True):
            with self.subTest(volumes=volumes, s3=s3):
                spec = chart.restore_spec(*volumes, s3=s3)
                values = chart.merged({"insecure": True}, BUCKET if s3 else VOLUME)
                objects = chart.render(values, release="escapement")
                owner = self.check_restore(spec, objects, "standalone")
                claim = owner["spec"]["volumeClaimTemplates"][0]["metadata"]["name"]
                self.assertEqual(spec["volumes"][0], {
                    "name": "data", "persistentVolumeClaim": {"claimName": f"{claim}-{owner['metadata']['name']}-0"}})
                if s3:
                    self.check_bucket(spec, objects)

    def test_the_restore_of_stores_writes_the_log_that_they_read(self):
        spec = chart.restore_spec("backups", "postgresql")
        objects = chart.render(chart.PRODUCTION, release="escapement")
        owner = self.check_restore(spec, objects, "store")
        self.assertEqual(spec["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["spec"], owner["spec"]["volumeClaimTemplates"][0]["spec"])
        store = owner["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(spec["containers"][0]["command"], store["command"])
        for entry in spec["containers"][0]["env"]:
            self.assertIn(entry, store["env"])
        secret = chart.PRODUCTION["store"]["postgresql"]["existingSecret"]
        url = json.loads(re.search(rf"patch secret {secret} --patch '(.*?)'", BACKUP, re.DOTALL)[1])["stringData"]["url"]
        database = re.search(r"CREATE DATABASE (\w+) ", BACKUP)[1]
        self.assertEqual(url.replace(f"/{database}?", "/escapement?"), secrets_made()[secret]["url"])

    def test_the_selectors_find_the_pods_and_the_claims_of_the_stores(self):
        objects = chart.render(chart.PRODUCTION, release="escapement")
        claims = [(each["metadata"]["name"], claim) for each in objects if each["kind"] == "StatefulSet"
                  for claim in each["spec"]["volumeClaimTemplates"]]
        claims += [(each["metadata"]["name"], each) for each in objects if each["kind"] == "PersistentVolumeClaim"]
        running = {f"escapement-{kind}" for kind in ("store", "master", "emitter", "handler", "token-manager")}
        there = {"deployment,statefulset": [(each["metadata"]["name"], each) for each in objects if each["kind"] in ("Deployment", "StatefulSet")],
                 "deployment": [(each["metadata"]["name"], each) for each in objects if each["kind"] == "Deployment"],
                 "pod": list(chart.pods_of(objects)), "persistentvolumeclaim": claims}
        expected = {"deployment,statefulset": running, "deployment": running - {"escapement-store"}, "pod": running,
                    "persistentvolumeclaim": {"escapement-store"}}
        found = re.findall(r"kubectl --namespace jobs (?:scale|wait|delete) (\S+) --selector (\S+)", BACKUP)
        self.assertEqual({kind for kind, _ in found}, set(expected))
        for kind, selector in found:
            labels = dict(each.split("=") for each in selector.split(",")).items()
            self.assertEqual({name for name, each in there[kind] if labels <= each["metadata"]["labels"].items()}, expected[kind], kind)

    def check_bucket(self, spec, objects):
        """The pod reads where the backups go, with their keys."""
        restored = spec["containers"][0]
        exported = dict(chart.pods_of(objects))["escapement-backup"]["spec"]["containers"][0]
        self.assertEqual([each for each in restored["args"] if "s3" in each], [each for each in exported["args"] if "s3" in each])
        self.assertEqual({each["valueFrom"]["secretKeyRef"]["name"] for each in exported["env"]},
                         {each["secretRef"]["name"] for each in restored["envFrom"]})

    def check_restore(self, spec, objects, kind):
        """The pod's last container writes where pods of this kind read. Returns their owner."""
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "restore"}, "spec": spec}
        self.assertEqual(errors_of([pod]), [])
        owner = chart.find(objects, "StatefulSet", f"-{kind}")
        for each in (owner, chart.find(objects, "CronJob", "")):
            self.assertIn(f"{each['kind'].lower()}/{each['metadata']['name']}", BACKUP)
        served = owner["spec"]["template"]["spec"]
        backup = dict(chart.pods_of(objects))["escapement-backup"]["spec"]
        for volume in spec["volumes"][1:]:
            self.assertIn(volume, backup.get("volumes", []) + served["volumes"])
        mounts = served["containers"][0]["volumeMounts"] + backup["containers"][0].get("volumeMounts", [])
        for container in spec.get("initContainers", []) + spec["containers"]:
            for mount in container["volumeMounts"]:
                self.assertIn(mount, mounts)
            said = re.search(r"--data.dir[ =](\S+)", " ".join(container["args"]))
            self.assertIn(f"--data_dir={said[1]}", served["containers"][0]["args"])
        mounted = {mount["name"] for container in spec.get("initContainers", []) + spec["containers"] for mount in container["volumeMounts"]}
        self.assertEqual(mounted, {each["name"] for each in spec["volumes"]})
        for name in ("runAsNonRoot", "runAsUser", "fsGroup"):
            self.assertEqual(spec["securityContext"][name], served["securityContext"][name])
        return owner


if __name__ == "__main__":
    unittest.main()
