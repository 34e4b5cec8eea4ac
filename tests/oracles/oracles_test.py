"""Compares the occurrences of random cron expressions with those of croniter and croner.

Usage: oracles_test.py CRON_DUMP FOLDER_OF_CRONER [CASES [SEED]]

For every expression, zone and instant each program says which occurrence comes next, for a row of instants: those of the
occurrences that cron_dump finds. Where an oracle says something else, a named class of dialects.py must say exactly
what the oracle says; a disagreement that no class predicts fails the test. docs/cron_oracles.md explains the classes.
"""

import collections
import datetime
import os
import subprocess
import sys

sys.dont_write_bytecode = True  # the folder is part of the source tree
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

try:
    import croniter  # noqa: F401 (only checks that it is installed)
    import pytz
except ImportError as error:
    sys.exit(f"oracles_test: {error}: tools/setup installs python3-croniter, which this test needs")

import dialects
import random_cases

REFUSED = "refused"
CASES, SEED = 7000, 20261121
COMPARED_MIN = 0.7  # least part of the cases that each oracle can express and both accept
AGREE_MIN = 0.85  # least part of the steps that agree, whether or not a class explains the rest
MOVED_HOURS_MAX = 24  # only differences this near to a change of the offset may be explained by it
EXAMPLES_MAX = 15  # failures that are shown


def run(name, command, lines):
    result = subprocess.run(command, input="".join(line + "\n" for line in lines), capture_output=True, text=True)
    out = result.stdout.splitlines()
    if result.returncode != 0 or len(out) != len(lines):
        sys.exit(f"oracles_test: {name} ended with {result.returncode} after {len(out)} of {len(lines)} lines:\n"
                 f"{result.stderr[-2000:]}")
    return out


class Ours:
    """cron_dump, with an answer for each (expression, zone, after)."""

    def __init__(self, program):
        self.program = program

    def occurrences(self, cases, *more):
        """For each case its occurrences [(instant, note)], or None if the expression is refused. `more` are columns."""
        lines = run("cron_dump", [self.program], ["\t".join(map(str, [*case, *more])) for case in cases])
        return [None if line.startswith(REFUSED) else self.parse(line) for line in lines]

    @staticmethod
    def parse(line):
        pairs = (word.split("/") for word in line.split())
        return [(int(instant), note) for instant, note in pairs]

    def next_of(self, questions, *more):
        """For (expression, zone, after) the next instant; None if there is none, or no expression."""
        asked = [question for question in questions if question[0] is not None]
        found = iter(self.occurrences([random_cases.Case(*question, 1) for question in asked], *more))
        answers = [None if text is None else next(found) for text, _, _ in questions]
        return [answer[0][0] if answer else None for answer in answers]


class Offsets:
    """The UTC offsets of a zone, from the same database by another reader."""

    def __init__(self):
        self.zones = {}

    def changes(self, zone):
        """Instants at which the offset changes, ascending."""
        if zone not in self.zones:
            tz, found = pytz.timezone(zone), []
            times = getattr(tz, "_utc_transition_times", [])
            for before, after, time in zip(tz._transition_info if times else [], tz._transition_info[1:] if times else [],
                                           times[1:]):
                if before[0] != after[0]:
                    found.append(int(time.replace(tzinfo=datetime.timezone.utc).timestamp()))
            self.zones[zone] = found
        return self.zones[zone]

    @staticmethod
    def at(zone, instant):
        local = datetime.datetime.fromtimestamp(instant, pytz.timezone(zone))
        return int(local.utcoffset().total_seconds())

    def near(self, zone, instant, hours):
        return any(abs(change - instant) <= hours * 3600 for change in self.changes(zone))


def make_cases(count, seed, offsets):
    first, last = (random_cases.Generator.year_start(year) for year in random_cases.ZONED_YEARS)
    changes = {zone: [c for c in offsets.changes(zone) if first <= c < last] for zone in random_cases.ZONES}
    generator = random_cases.Generator(seed, changes)
    cases = [generator.case() for _ in range(count)]
    # For an expression that is only accepted or refused, one instant in UTC is enough.
    return cases + random_cases.FIXED + [random_cases.Case(text, "UTC", 1_266_000_000, 3) for text in random_cases.REFUSALS]


class Judge:
    def __init__(self, dialect, ours, offsets):
        self.dialect, self.ours, self.offsets = dialect, ours, offsets
        self.counts = collections.Counter()
        self.examples = {}  # class → first example
        self.failures = []
        self.compared = self.steps = 0
        self.open_steps = []  # unexplained steps: (case, after, our instant, their instant)

    def name(self, name, example):
        self.counts[name] += 1
        self.examples.setdefault(name, example)

    def add(self, case, instants, mine, line):
        if line == "unspoken":
            self.counts["(not in its language)"] += 1
            return
        theirs_refused = line.startswith(REFUSED)
        if mine is None or theirs_refused:
            self.add_refusal(case, mine is None, theirs_refused, line)
            return
        self.compared += 1
        self.counts["expressions compared in " + ("UTC" if case.zone == "UTC" else "other zones")] += 1
        steps = line.split()
        expected = [instant for instant, _ in mine] + ([None] if len(mine) < case.count else [])
        for after, ours, theirs in zip(instants, expected, steps):
            theirs = None if theirs == "none" else int(float(theirs))
            self.steps += 1
            if ours == theirs:
                self.counts["steps that agree"] += 1
            else:
                self.open_steps.append((case, after, ours, theirs))

    def add_refusal(self, case, mine, theirs, line):
        if mine and theirs:
            self.counts["refused by both"] += 1
            return
        name = self.dialect.why_only_ours_refuses(case.expression) if mine else \
            self.dialect.why_only_theirs_refuses(case.expression)
        if name is None:
            self.failures.append(f'"{case.expression}": only {"we" if mine else self.dialect.name} refuse: {line}')
        else:
            self.name(name, f"`{case.expression}`")

    def finish(self):
        """Explains the steps that differ."""
        read = [self.dialect.reads(case.expression) for case, _, _, _ in self.open_steps]
        questions = [(text, case.zone, after) for (text, _), (case, after, _, _) in zip(read, self.open_steps)]
        as_read = self.ours.next_of(questions)
        moved = self.dialect.moves(self.ours, self.offsets, questions)
        missing = self.missing_needs()
        for step, (text, names), same, other, missed in zip(self.open_steps, read, as_read, moved, missing):
            case, after, _, theirs = step
            if theirs is None and missed:
                self.name(missed, self.show(*step))
            elif names and same == theirs:
                for name in names:
                    self.name(name, self.show(*step))
            elif other is not None and other[1] == theirs and self.near_change(case.zone, after, min(same, theirs)):
                for name in [*names, other[0]]:
                    self.name(name, self.show(*step))
            elif (skipped := self.dialect.skips(self.ours, self.offsets, case.zone, text, after, same)) and \
                    skipped[1] == theirs:
                for name in [*names, skipped[0]]:
                    self.name(name, self.show(*step))
            elif name := self.dialect.gives_up(case, after, same, theirs):
                self.name(name, self.show(*step))
            else:
                self.failures.append(f"{self.show(*step)}; reads `{text}`: {self.local(case.zone, same)}, "
                                     f"moved: {other and self.local(case.zone, other[1])}")

    def near_change(self, zone, after, result):
        """croniter begins its search up to a minute after `after`."""
        return self.offsets.near(zone, result, MOVED_HOURS_MAX) or self.offsets.near(zone, after, 1 / 60)

    def check_coverage(self, cases):
        """So that a test that compares nothing fails."""
        agree = self.counts["steps that agree"]
        if self.compared < COMPARED_MIN * cases or agree < AGREE_MIN * self.steps:
            self.failures.append(f"only {self.compared} of {cases} expressions compared, {agree} of {self.steps} steps agree")

    def missing_needs(self):
        """For each step that differs the class of what the oracle needs and does not find, or None."""
        needs = [(number, part, name) for number, (case, _, _, _) in enumerate(self.open_steps)
                 for part, name in self.dialect.needs(case.expression)]
        found = self.ours.next_of([(part, self.open_steps[number][0].zone, self.open_steps[number][1])
                                   for number, part, _ in needs])
        missing = [None] * len(self.open_steps)
        for (number, _, name), instant in zip(needs, found):
            if instant is None or instant - self.open_steps[number][1] > self.dialect.horizon:
                missing[number] = name
        return missing

    def show(self, case, after, ours, theirs):
        return (f"`{case.expression}` in {case.zone} after {self.local(case.zone, after)}: "
                f"we {self.local(case.zone, ours)}, {self.dialect.name} {self.local(case.zone, theirs)}")

    @staticmethod
    def local(zone, instant):
        if instant is None:
            return "never"
        return datetime.datetime.fromtimestamp(instant, pytz.timezone(zone)).strftime("%Y-%m-%dT%H:%M:%S%z")


def judge(dialect, command, ours, offsets, cases, mine):
    instants = [[case.after] + [instant for instant, _ in found or []] for case, found in zip(cases, mine)]
    lines = [f"{case.expression}\t{case.zone}\t{' '.join(map(str, row))}" for case, row in zip(cases, instants)]
    judge_ = Judge(dialect, ours, offsets)
    for case, row, found, line in zip(cases, instants, mine, run(dialect.name, command, lines)):
        judge_.add(case, row, found, line)
    judge_.finish()
    judge_.check_coverage(len(cases))
    return judge_


def report(judge_):
    print(f"\n{judge_.dialect.name}")
    for name, count in sorted(judge_.counts.items()):
        print(f"  {count:7} {name}")
        if name in judge_.examples:
            print(f"            {judge_.examples[name]}")
    for failure in judge_.failures[:EXAMPLES_MAX]:
        print(f"  FAILED  {failure}")
    if judge_.failures:
        print(f"  {len(judge_.failures)} disagreements that no class explains")


def main():
    cron_dump, croner = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else CASES
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else SEED
    if not os.path.exists(os.path.join(croner, "package.json")):
        sys.exit(f"oracles_test: {croner} is missing: tools/setup installs npm's croner, which this test needs")
    ours, offsets = Ours(cron_dump), Offsets()
    cases = make_cases(count, seed, offsets)
    mine = ours.occurrences(cases)
    judges = [
        judge(dialects.Croniter(), ["/usr/bin/python3", os.path.join(HERE, "croniter_dump.py")], ours, offsets, cases, mine),
        judge(dialects.Croner(), ["/usr/bin/node", os.path.join(HERE, "croner_dump.js"), os.path.abspath(croner)], ours,
              offsets, cases, mine),
    ]
    print(f"{len(cases)} expressions, {sum(len(found or []) for found in mine)} occurrences, seed {seed}")
    for judge_ in judges:
        report(judge_)
    sys.exit(any(judge_.failures for judge_ in judges))


if __name__ == "__main__":
    main()
