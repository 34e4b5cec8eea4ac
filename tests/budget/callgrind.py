"""Runs a path of this folder under callgrind and reads what was counted between its two marks (mark.h)."""
import collections
import os
import re
import subprocess
import tempfile

NAME = re.compile(r"\((\d+)\)(?: (.*))?")
# Functions that allocate, and functions that copy bytes. Inlined copies are not seen.
ALLOCATION = re.compile(r"operator new|(malloc|calloc|realloc|aligned_alloc|posix_memalign)$")
COPY = re.compile(r"(__)?mem(cpy|move|pcpy)")


class Profile:
    """The call graph: own instructions of each function, and what each caller spent in it."""

    def __init__(self, path):
        self.own = collections.Counter()
        self.callers = collections.defaultdict(collections.Counter)
        self.calls = collections.Counter()  # call counts by (caller, callee)
        self.object_of = {}
        names = {"ob": {}, "fn": {}}
        here = {"ob": "", "fn": ""}
        callee = {"ob": None, "fn": None}
        call_follows = False
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                key, equals, rest = line.partition("=")
                if equals and key in ("ob", "fn"):
                    here[key] = self._name(names[key], rest)
                    if key == "fn":
                        self.object_of.setdefault(here["fn"], here["ob"])
                elif equals and key in ("cob", "cfn"):
                    callee[key[1:]] = self._name(names[key[1:]], rest)
                elif equals and key == "calls":
                    call_follows = True
                    self.calls[here["fn"], callee["fn"]] += int(rest.split()[0])
                elif line[0].isdigit() or line[0] in "+-*":
                    fields = line.split()
                    cost = int(fields[1]) if len(fields) > 1 else 0
                    if call_follows:
                        self.object_of.setdefault(callee["fn"], callee["ob"] or here["ob"])
                        if callee["fn"] != here["fn"]:
                            self.callers[callee["fn"]][here["fn"]] += cost
                        callee = {"ob": None, "fn": None}
                        call_follows = False
                    else:
                        self.own[here["fn"]] += cost
        self.total = sum(self.own.values())

    def calls_of(self, pattern):
        """How often functions whose name matches were called, except by one another."""
        return sum(count for (caller, callee), count in self.calls.items()
                   if pattern.match(callee) and not pattern.match(caller))

    @property
    def allocations(self):
        return self.calls_of(ALLOCATION)

    @property
    def copies(self):
        return self.calls_of(COPY)

    @staticmethod
    def _name(known, text):
        number, name = NAME.match(text.strip()).groups()
        if name is not None:
            known[number] = re.sub(r"'\d+$", "", name)  # removes a recursion's depth
        return known[number]


class Failed(Exception):
    """A path could not be measured; says why."""


def measure(command):
    """The profile of the measured part of a program, which must call escapement_budget_mark() twice."""
    with tempfile.TemporaryDirectory(prefix="escapement_profile_") as folder:
        counts = os.path.join(folder, "counts")
        callgrind = ["valgrind", "-q", "--tool=callgrind", "--dump-before=escapement_budget_mark",
                     "--callgrind-out-file=" + counts]
        try:
            done = subprocess.run(callgrind + command, capture_output=True, text=True, errors="replace", check=False)
        except FileNotFoundError as error:
            raise Failed("valgrind is not installed: tools/setup installs it") from error
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        if not os.path.exists(counts + ".2"):
            raise Failed(f"{' '.join(command)} has passed fewer than two marks")
        return Profile(counts + ".2")


def read_budgets(path):
    """{path: (events of a measurement, instructions per event)}, in the order of the file."""
    budgets = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = line.split("#")[0].split()
            if fields:
                name, events, instructions = fields
                budgets[name] = (int(events), int(instructions))
    return budgets
