"""values.yaml, its schema, its README, and the config file of the programs say the same."""
import json
import re
import subprocess
import sys
import unittest

import yaml

import chart

sys.path.insert(0, str(chart.CHART.parent))
import readme  # noqa: E402

TEXT = (chart.CHART / "values.yaml").read_text(encoding="utf-8")
VALUES = yaml.safe_load(TEXT)
SCHEMA = json.loads((chart.CHART / "values.schema.json").read_text(encoding="utf-8"))


# Kubernetes' own objects: values.yaml has only the fields with defaults.
OPEN = {"affinity", "behavior", "containerSecurityContext", "dnsConfig", "securityContext", "spec"}


def resolved(schema):
    schema = schema.get("allOf", [schema])[0]  # the others say what is required
    return SCHEMA["definitions"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema


def schemas(schema, path=()):
    """(path, schema) of all objects."""
    schema = resolved(schema)
    if schema.get("type") == "object":
        yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas(inner, (*path, name))


class ValuesTest(unittest.TestCase):
    def test_every_value_has_a_comment(self):
        said = readme.comments(TEXT)
        for path, _ in readme.values_of(VALUES, said):
            self.assertIn(path, said)

    def test_the_readme_is_made_from_the_values(self):
        self.assertEqual((chart.CHART / "README.md").read_text(encoding="utf-8"), readme.readme(TEXT),
                         "run deploy/helm/readme.py")

    def test_the_schema_has_the_same_names(self):
        for path, schema in schemas(SCHEMA):
            if "properties" not in schema or path == ("global",):
                continue  # charts around this one have further global values
            self.assertIs(schema["additionalProperties"], False, path)
            values = VALUES
            for name in path:
                values = values.get(name, {})
            known = set(schema["properties"])
            if path == ("config",):
                continue
            if path[-1:] == ("resources",) or set(path) & OPEN or len(path) > 1 and "pod" in path:
                self.assertLessEqual(set(values), known, path)
            else:
                self.assertEqual(set(values), known, path)

    def test_the_schema_knows_the_config_file(self):
        proto = (chart.ROOT / "proto/escapement/config/v1/config.proto").read_text(encoding="utf-8")
        fields = dict(reversed(pair) for pair in re.findall(r"optional (\w+) (\w+) =", proto))
        config = SCHEMA["properties"]["config"]["properties"]
        kinds = {"string": "string", "bool": "boolean", "int32": "integer", "uint32": "integer", "uint64": "integer"}
        for name, kind in config.items():
            self.assertEqual(kind["type"], kinds[fields[name]], name)
        set_by_the_chart = set(fields) - set(config)
        self.assertEqual(set_by_the_chart, {
            "advertise", "bootstrap_key_file", "cell", "data_dir", "drain_timeout", "http_listen", "insecure", "instance", "instance_file",
            "jwt_issuers", "listen", "peer_ca", "port_file", "replicate_through", "require_credentials", "secret_keys_file", "store",
            "store_id", "tls_cert", "tls_key", "tls_service_ca"})

    def test_the_thresholds_of_the_rules_are_those_of_the_file(self):
        text = (chart.ROOT / "deploy/prometheus/alerts.yaml").read_text(encoding="utf-8")
        said = {(name, float(number)) for number, name in re.findall(r"([0-9.]+) # value: (\w+)$", text, re.MULTILINE)}
        self.assertEqual(said, {(name, float(value)) for name, value in VALUES["metrics"]["rules"]["thresholds"].items()})
        self.assertEqual(len(re.findall(r"# value: \w+$", text, re.MULTILINE)), len(re.findall(r"[0-9.]+ # value: ", text)))

    def test_the_image_of_a_release_has_the_version_of_the_chart(self):
        facts = yaml.safe_load((chart.CHART / "Chart.yaml").read_text(encoding="utf-8"))
        said = subprocess.run([chart.ROOT / "services/store/store", "--version"], capture_output=True, text=True, check=True,
                              timeout=chart.DEADLINE).stdout
        # Builds that are no release say 0.0.0-dev.
        self.assertIn(re.search(r"\d+\.\d+\.\d+\S*", said)[0], (str(facts["appVersion"]), "0.0.0-dev"))


if __name__ == "__main__":
    unittest.main()
