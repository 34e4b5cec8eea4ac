"""Counts test cases of one `bazel test` run: prints "N passed, M failed", exits 1 if any failed.

Usage: count_tests.py BUILD_EVENTS.json [NAME=EXIT_STATUS…]

A target that passed counts each of its cases (or itself, if it has none); one that did not counts its failed cases,
but at least one, and one that could not be built or was not run counts as one failure. Each NAME is a check that ran
outside Bazel; it counts as one case, which passed if its exit status is 0.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree


def cases(files):
    """(passed, failed) of the test.xml files of a target's shards."""
    passed = failed = 0
    for path in files:
        try:
            root = xml.etree.ElementTree.parse(path).getroot()
        except (OSError, xml.etree.ElementTree.ParseError):
            continue
        for case in root.iter("testcase"):
            if case.get("status") == "notrun" or case.get("result") == "skipped":
                continue
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
            else:
                passed += 1
    return passed, failed


def main():
    events, *checks = sys.argv[1:]
    reports = {}  # label → its test.xml files of this run
    status = {}  # label → overall status, None if it never ran
    try:
        with open(events, encoding="utf-8") as lines:
            for line in lines:
                event = json.loads(line)
                id_ = event.get("id", {})
                if "targetConfigured" in id_ and event.get("configured", {}).get("testSize"):
                    status.setdefault(id_["targetConfigured"]["label"], None)
                if "testResult" in id_:
                    for output in event.get("testResult", {}).get("testActionOutput", []):
                        uri = urllib.parse.urlparse(output.get("uri", ""))
                        if output["name"] == "test.xml" and uri.scheme == "file":
                            reports.setdefault(id_["testResult"]["label"], []).append(
                                urllib.parse.unquote(uri.path)
                            )
                if "testSummary" in id_:
                    status[id_["testSummary"]["label"]] = event["testSummary"]["overallStatus"]
    except OSError:
        pass
    passed = failed = 0
    bad = []
    for label, result in sorted(status.items()):
        good_cases, bad_cases = cases(reports.get(label, [])) if result else (0, 0)
        if result in ("PASSED", "FLAKY"):
            passed += max(good_cases, 1)
        else:
            passed += good_cases
            failed += max(bad_cases, 1)
            bad.append("%s: %s" % (label, result or "not run"))
    if not status:
        failed = 1
        bad.append("nothing could be built")
    for check in checks:
        name, exit_status = check.rsplit("=", 1)
        if exit_status == "0":
            passed += 1
        else:
            failed += 1
            bad.append("%s: FAILED" % name)
    for line in bad:
        print(line)
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed else 0)


main()
