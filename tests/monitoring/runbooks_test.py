"""Each alert has a runbook and each runbook an alert; monitoring.md lists them all; the commands of the runbooks exist."""
import re
import subprocess
import sys
import unittest
from pathlib import Path

RUNBOOKS = Path("docs/runbooks")
SECTIONS = ["## See more", "## Causes, the likeliest first", "## First steps", "## Do not"]
# A command in a block, or within a line.
COMMAND = re.compile(r"(?:^|`)escctl ([^`\n]+)", re.MULTILINE)


def alerts():
    """The alerts: names, and pairs of severity and runbook. If several rules have one name: "critical and warning"."""
    found = {}
    for text in Path("deploy/prometheus/alerts.yaml").read_text(encoding="utf-8").split("- alert: ")[1:]:
        severities, runbooks = found.setdefault(text.split("\n", 1)[0], ([], set()))
        severities.append(re.search(r"severity: (\w+)", text)[1])
        runbooks.add(re.search(r"runbook_url: (\S+)", text)[1])
    return {name: (" and ".join(severities), ", ".join(sorted(runbooks))) for name, (severities, runbooks) in found.items()}


class RunbooksTest(unittest.TestCase):
    def test_each_alert_has_a_runbook(self):
        for name, (severity, runbook) in alerts().items():
            with self.subTest(alert=name):
                self.assertIn(severity, ("critical", "warning", "critical and warning"))
                self.assertEqual(runbook, f"https://escapement.example/docs/runbooks/{name}.md")
                text = (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8")
                self.assertTrue(text.startswith(f"# {name}\n\n**{severity}** · "), "title and severity")
                self.assertEqual([line for line in text.splitlines() if line.startswith("## ")], SECTIONS)

    def test_texts_name_labels_that_the_alert_has(self):
        for text in Path("deploy/prometheus/alerts.yaml").read_text(encoding="utf-8").split("- alert: ")[1:]:
            expression, _, rest = text.partition("        for: ")
            kept = [set(re.split(r",\s*", keys)) for keys in re.findall(r"\bby \(([^)]*)\)", expression)]
            # Recorded series have the labels of the recording rules.
            labels = set.intersection(*kept) if kept else {"cluster", "namespace", "job"}
            # Series recorded by a further label have it, too.
            if not kept and (recorded := set(re.findall(r"\bjob_(\w+):", expression))):
                labels |= recorded
            named = set(re.findall(r"\$labels\.(\w+)", rest))
            self.assertLessEqual(named, labels, text.split("\n", 1)[0])

    def test_each_runbook_has_an_alert(self):
        self.assertEqual({file.stem for file in RUNBOOKS.glob("Escapement*.md")}, set(alerts()))

    def test_monitoring_lists_each_alert(self):
        text = Path("docs/operations/monitoring.md").read_text(encoding="utf-8")
        listed = dict(re.findall(r"^\| \[(\w+)\]\(\.\./runbooks/\1\.md\) \| ([\w ]+) \|", text, re.MULTILINE))
        self.assertEqual(listed, {name: severity for name, (severity, _) in alerts().items()})

    def test_links_lead_to_files(self):
        for file in RUNBOOKS.glob("*.md"):
            for link in re.findall(r"\]\((\w+\.md)\)", file.read_text(encoding="utf-8")):
                self.assertTrue((RUNBOOKS / link).exists(), f"{file.name}: {link}")

    def test_each_command_exists(self):
        commands = 0
        for file in sorted(RUNBOOKS.glob("*.md")):
            for command in COMMAND.findall(file.read_text(encoding="utf-8")):
                with self.subTest(file=file.name, command=command):
                    self.expect_command(command)
                commands += 1
        self.assertGreater(commands, 30)

    def expect_command(self, command):
        """The subcommand has help of its own, which has each flag of the command."""
        path = re.match(r"[a-z]+(?: [a-z]+(?=\s|$))*", command)[0]
        help_text = subprocess.run([ESCCTL, *path.split(), "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertRegex(help_text, rf"(?m)^Usage: escctl {path}( |$)")
        top = subprocess.run([ESCCTL, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
        for flag in re.findall(r"(?<=\s)--?[a-z][a-z-]*", command):
            self.assertRegex(help_text + top, rf"[\s,]{flag}\b", flag)


if __name__ == "__main__":
    ESCCTL = sys.argv.pop(1)
    unittest.main(verbosity=2)
