"""Every query of every dashboard, and every selector of the rules, finds series in a platform at work.

Also: the files of the dashboards are up to date, their panels have units, descriptions and places, and every metric that a rule,
dashboard or document names exists.
"""
import json
import re
import shlex
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

import dashboards
from load import Load
from platform_processes import Platform, await_true
from prometheus import Prometheus

RULES = [Path("deploy/prometheus/recording_rules.yaml"), Path("deploy/prometheus/alerts.yaml")]
DOCUMENTS = [Path("docs/operations/monitoring.md"), *sorted(Path("docs/runbooks").glob("*.md"))]
METRIC = re.compile(r"\b(?:job\w*:)?(?:escapement_[a-z0-9_]+[a-z0-9]|process_[a-z_]+[a-z])(?::[a-z0-9_]+)?")
SELECTOR = re.compile(METRIC.pattern + r"(?:\{[^}]*\})?")
# The platform of this test has no certificates; tests/integration has the metrics of one that has.
WITHOUT_TLS = "escapement_tls_"


def rule_expressions(text):
    """The expressions of a file of rules, without comments."""
    lines, inside, found = [], None, []
    for line in text.splitlines():
        if line.strip().startswith("#"):
            continue
        indent = len(line) - len(line.lstrip())
        if inside is not None and line.strip() and indent <= inside:
            found.append(" ".join(lines))
            inside, lines = None, []
        if inside is None and (begin := re.match(r"\s*expr:\s*(\|?)(.*)", line)):
            inside, lines = indent, [begin[2]]
        elif inside is not None:
            lines.append(line.strip())
    if inside is not None:
        found.append(" ".join(lines))
    return found


class FilesTest(unittest.TestCase):
    def test_panels_are_complete(self):
        for name in dashboards.NAMES:
            dashboard = dashboards.load(name)
            self.assertEqual([variable["name"] for variable in dashboard["templating"]["list"]], ["datasource", *dashboards.NAMES_OF_VARIABLES])
            self.assertEqual([each["name"] for each in dashboard["annotations"]["list"]], ["Alert", "Restart", "New leader"])
            panels = dashboards.panels(dashboard)
            titles = [panel["title"] for panel in panels]
            self.assertEqual(len(titles), len(set(titles)), name)
            taken = set()
            for link in re.findall(r"https://escapement[.]example/([\w/.]+)", json.dumps(dashboard)):
                self.assertTrue(Path(link).exists(), link)
            for panel in panels:
                self.assertTrue(panel["description"].endswith("."), panel["title"])
                self.assertTrue(panel["fieldConfig"]["defaults"]["unit"], panel["title"])
                place = panel["gridPos"]
                self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
                cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
                self.assertFalse(taken & cells, f"{panel['title']} lies over another panel")
                taken |= cells
                for target in panel["targets"]:
                    recorded = re.search(r"\bjob\w*:", target["expr"])
                    for variable in dashboards.NAMES_OF_VARIABLES[:4 if recorded else 6]:
                        self.assertIn(f"${variable}", target["expr"], panel["title"])


class QueriesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="escapement-dashboards-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.platform = platform = Platform(PROGRAMS, cls.folder, replicated=True)
        cls.addClassCleanup(platform.end)
        platform.await_ready()
        load = Load(platform)
        load.start()
        load.start_policy()
        load.start_failures()
        rules = [file.read_text(encoding="utf-8") for file in RULES]
        # One whose targets have names alone, and one whose targets have the labels of prometheus-operator.
        cls.both = []
        for operator in (False, True):
            cls.prometheus = Prometheus(cls.folder, list(platform.http.values()), rules, operator)
            cls.addClassCleanup(cls.prometheus.end)
            cls.both.append(cls.prometheus)

    def expect_values(self, queries):
        """Asks the queries, a dictionary of what each is and its expression, until each has a value in both."""
        for prometheus in self.both:
            self.expect_values_in(prometheus, queries)

    def expect_values_in(self, prometheus, queries):
        left = dict(queries)

        def ask():
            # A user's calls: one is answered, one is refused.
            self.platform.escctl("schedule", "list")
            with self.assertRaises(AssertionError):
                self.platform.escctl("schedule", "get", "missing")
            counts = prometheus.promtool_queries(list(left.values()))
            for what, count in zip(list(left), counts):
                if count > 0:
                    del left[what]
            return not left
        try:
            await_true("a value of each query", ask)
        except AssertionError:
            self.fail("these queries find nothing:\n" + "\n".join(f"{what}: {query}" for what, query in left.items()))

    def test_each_panel_shows_something(self):
        queries = {}
        for name in dashboards.NAMES:
            dashboard = dashboards.load(name)
            for panel in dashboards.panels(dashboard):
                for number, (expression, _) in enumerate(dashboards.expressions(panel)):
                    queries[f"{dashboard['title']} / {panel['title']} / {number}"] = expression
        self.assertGreater(len(queries), 80)
        self.expect_values(queries)

    def test_annotations_can_be_asked(self):
        for name in dashboards.NAMES:
            for each in dashboards.load(name)["annotations"]["list"]:
                self.prometheus.query(dashboards.without_variables(each["expr"]))

    def test_labels_of_the_operator_rename_none_of_ours(self):
        self.assertEqual([name for name in self.prometheus.label_names() if name.startswith("exported_")], [])

    def test_programs_are_told_apart(self):
        for prometheus in self.both:
            found = {labels["program"] for labels, _ in prometheus.query("count by (program) (escapement_ready)")}
            self.assertEqual(found, {"store", "master", "emitter", "handler", "token_manager"})

    def test_each_selector_of_the_rules_finds_series(self):
        selectors = {}
        for file in RULES:
            found = rule_expressions(file.read_text(encoding="utf-8"))
            self.assertGreater(len(found), 10)
            for expression in found:
                selectors |= {f"{file} {selector}": selector for selector in SELECTOR.findall(expression)
                              if not selector.startswith(WITHOUT_TLS)}
        self.expect_values(selectors)

    def test_each_query_of_the_runbooks_finds_something(self):
        queries = {}
        for file in DOCUMENTS:
            for block in re.findall(r"```promql\n(.*?)```", file.read_text(encoding="utf-8"), re.DOTALL):
                queries |= {f"{file.name} {line}": line for line in block.splitlines() if WITHOUT_TLS not in line}
        self.assertGreater(len(queries), 50)
        self.expect_values(queries)

    def test_commands_of_the_runbooks_that_only_read_work(self):
        ran = set()
        for file in DOCUMENTS:
            for command in re.findall(r"(?:^|`)escctl ([^`\n]+)", file.read_text(encoding="utf-8"), re.MULTILINE):
                words = shlex.split(command)
                reads = {"list", "status", "purge", "clock", "top"} & set(words[:2]) and not {"--confirm", "--force"} & set(words)
                if reads and not any(word.isupper() for word in words if word.isalpha() and len(word) > 2):
                    self.platform.escctl(*words)
                    ran.add(command)
        self.assertGreater(len(ran), 8)

    def test_each_metric_of_the_documents_exists(self):
        named = {name for file in DOCUMENTS for name in METRIC.findall(file.read_text(encoding="utf-8"))
                 if not name.startswith(WITHOUT_TLS)}
        self.assertGreater(len(named), 40)
        missing = set(named)

        def look():
            exist = self.prometheus.metric_names()
            missing.difference_update(exist, {re.sub("_(bucket|sum|count)$", "", name) for name in exist})
            return not missing
        try:
            await_true("all metrics", look)
        except AssertionError:
            self.fail(f"there are no such metrics: {sorted(missing)}")


if __name__ == "__main__":
    PROGRAMS = sys.argv.pop(1)
    unittest.main(verbosity=2)
