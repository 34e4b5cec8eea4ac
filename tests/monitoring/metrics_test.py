"""The names, units and helps of all metrics, and the page that lists them (docs/operations/metrics.md)."""
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

import metrics_page
from load import Load
from platform_processes import Platform, await_true

PAGE = Path("docs/operations/metrics.md")
# They appear late in the life of this platform, so it is complete when they are there.
LATE = ["escapement_token_manager_policy_events_waiting{", "escapement_handler_heartbeats_total ", "escapement_rpc_streams_open{",
        "escapement_store_replica_lag_seconds ", "escapement_tokens_given_back_total{", "escapement_rpc_handled_total{"]
# common/metrics/metrics.h has the same. Prometheus renames them, because the scrape gives them to the target.
OF_TARGETS = {"cluster", "container", "endpoint", "instance", "job", "namespace", "node", "pod", "prometheus", "service"}
IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-|[0-9a-f]{16}|127\.0\.0\.1")


class MetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="escapement-metrics-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.platform = Platform(PROGRAMS, cls.folder, replicated=True)
        cls.addClassCleanup(cls.platform.end)
        cls.platform.await_ready()
        load = Load(cls.platform)
        load.start()
        load.start_policy()
        load.start_failures()
        await_true("all metrics", lambda: cls.scrape() and all(
            any(late in text for texts in cls.pages.values() for text in texts) for late in LATE))

    @classmethod
    def scrape(cls):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        cls.pages = {}
        for process, address in cls.platform.http.items():
            with opener.open(f"http://{address}/metrics", timeout=30) as answer:
                cls.pages.setdefault(process.partition(".")[0], []).append(answer.read().decode())
        return True

    def test_promtool_has_nothing_to_say(self):
        for program, texts in self.pages.items():
            checked = subprocess.run(["promtool", "check", "metrics"], input=texts[0], capture_output=True, text=True, timeout=60,
                                     check=False)
            self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""), program)

    def test_the_page_is_up_to_date(self):
        page = metrics_page.render(metrics_page.collect(self.pages), self.pages)
        if WRITE:
            PAGE.write_text(page, encoding="utf-8")
        self.assertEqual(PAGE.read_text(encoding="utf-8"), page, "tools/dev metrics writes it")

    def test_no_label_has_an_id_or_an_address(self):
        for texts in self.pages.values():
            for text in texts:
                for line in text.splitlines():
                    if not line.startswith("#") and "{" in line:
                        self.assertIsNone(IDS.search(line.partition("{")[2].rpartition("}")[0]), line)

    def test_no_label_is_called_like_one_of_a_target(self):
        for program, texts in self.pages.items():
            named = {label for metric in metrics_page.collect({program: texts}).values() for label in metric.labels}
            self.assertEqual(named & OF_TARGETS, set(), program)

    def test_the_number_of_series_is_bounded(self):
        for program, texts in self.pages.items():
            series = sum(not line.startswith("#") for line in texts[0].splitlines())
            self.assertLess(series, 1500, program)


if __name__ == "__main__":
    WRITE = "--write" in sys.argv and (sys.argv.remove("--write") or True)
    PROGRAMS = sys.argv.pop(1)
    unittest.main(verbosity=2)
