#!/usr/bin/env python3
"""Where the instructions of a hot path go. Called by tools/dev profile, which builds the programs.

  show_profile.py --bin=FOLDER                the instructions per event of all paths, beside their budgets; allocations
                                              and calls that copy bytes
  show_profile.py --bin=FOLDER PATH [ARGS]    three tables of one path, in percent and instructions per event:

    kind of code   by what the instructions themselves belong to
    own function   by the platform's functions, each with what libraries did for it (strings, allocation, protobuf,
                   RocksDB), by each caller's share: where to look for something to save
    library        by functions of libraries, with the one of the platform that causes most of it

Functions that the compiler has inlined count to whoever called them.
"""
import argparse
import collections
import functools
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the folder is part of the source tree
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import callgrind

GRPC_EVENTS = 4000  # runs in true time, without a budget


def without_arguments(name):
    """Drops what is in brackets: std::vector<int>::push_back(int&&) → std::vector::push_back."""
    name = name.replace("(anonymous namespace)::", "").replace("operator()", "operator_call")
    name = re.sub(r"operator(<=>|<<|->|<|>)", "operator_", name)
    out, depth = [], 0
    for character in name:
        if character in "<({":
            depth += 1
        elif character in ">)}":
            depth -= 1
        elif depth == 0:
            out.append(character)
    return re.sub(r" \[clone.*| const$", "", "".join(out)).replace("operator_call", "operator()").strip()


# A closure belongs to the function before its mark.
CLOSURE = re.compile(
    r"(escapement::(?:[\w~]+::|\(anonymous namespace\)::|<[^<>]*>::)*[\w~]+)\([^{}]*\)(?: const)?::\{lambda")


@functools.lru_cache(maxsize=None)
def plain(name):
    """The function's name without arguments and result; of a closure, and of what calls one, who wrote it."""
    found = CLOSURE.search(name) if "{lambda" in name else None
    if found:
        return without_arguments(found.group(1)) + "::closure"
    text = without_arguments(name)
    return text.rsplit(" ", 1)[-1] if "operator" not in text else text


WORLD = "the path's own world: simulation, store in memory, harness"
WORLDS = re.compile(
    r"escapement::(sim::|kv::(MemDisk|MemKvStore|PendingWrites|DiskState|ScanDisk)|budget::|"
    r"\w+::(\w*World|\w*Fixture|PoorStore|QuietStore|AcceptingTransport)::)")
# The first match counts: (kind, pattern of the library's file, pattern of the function's name).
LIBRARIES = [
    ("allocation", r"libjemalloc", r"operator (new|delete)|(malloc|free|calloc|realloc)$"),
    ("RocksDB", r"librocksdb", r"rocksdb::"),
    ("copying and comparing bytes", None, r"(__)?(mem(cpy|move|cmp|set|chr|pcpy|rchr)|str(len|n?cmp|chr|nlen)|bcmp)"),
    ("gRPC", r"lib(grpc|gpr|upb|address_sorting|ssl|crypto|cares|re2)", r"grpc"),
    ("protobuf", r"libprotobuf", r"google::protobuf|escapement::(\w+::)*v\d::"),
    (WORLD, None, WORLDS.pattern),
    ("Abseil", r"libabsl", r"absl::"),
    ("standard library: strings, maps, vectors", r"libstdc\+\+", r"std::|__gnu_cxx"),
    ("hashes", r"libxxhash", r"XXH"),
]


@functools.lru_cache(maxsize=None)
def kind_of(name, library):
    short = plain(name)
    for kind, of_library, of_name in LIBRARIES:
        if (of_library and re.search(of_library, library)) or re.match(of_name, short):
            return kind
    if short.startswith("escapement::"):
        parts = short.split("::")
        return "own: " + (parts[1] if len(parts) > 2 and parts[1][:1].islower() else "common")
    return "libc and system calls" if re.search(r"libc\.|ld-linux|libm\.|vdso", library) else "other"


def is_own(profile, name):
    kind = kind_of(name, profile.object_of.get(name, ""))
    return kind.startswith("own") or kind == WORLD


def charged(profile):
    """Own instructions by function; those of libraries go to whoever called them, by each caller's share."""
    result = collections.Counter()
    moving = profile.own
    for _ in range(60):
        following = collections.Counter()
        for name, cost in moving.items():
            callers = profile.callers.get(name, {})
            spent = sum(callers.values())
            if spent == 0 or is_own(profile, name):
                result[name] += cost
                continue
            for caller, share in callers.items():
                following[caller] += cost * share / spent
        moving = following
        if sum(moving.values()) < profile.total * 1e-5:
            break
    result.update(moving)  # cost that still moves in circles among libraries
    return result


def cause_of(profile, name):
    """The platform's function that spends most in one of a library: up through the dearest callers."""
    seen = set()
    while name not in seen and not is_own(profile, name):
        seen.add(name)
        callers = profile.callers.get(name)
        if not callers:
            return "?"
        name = callers.most_common(1)[0][0]
    return plain(name)


def show_function(profile, wanted, events):
    """Who calls the functions of that name, and what they call."""
    callees = collections.defaultdict(collections.Counter)
    for callee, callers in profile.callers.items():
        for caller, cost in callers.items():
            callees[caller][callee] = cost
    for name in sorted(profile.object_of, key=lambda name: -profile.own[name]):
        if wanted not in plain(name):
            continue
        print(f"\n{plain(name)}: {profile.own[name] / events:,.1f} an event of its own")
        for direction, edges in (("from", profile.callers.get(name, {})), ("to", callees.get(name, {}))):
            for other, cost in sorted(edges.items(), key=lambda edge: -edge[1])[:16]:
                calls = profile.calls[(other, name) if direction == "from" else (name, other)]
                print(f"  {direction:4} {cost / events:10,.1f} in {calls / events:8.2f} calls  {plain(other)[:100]}")


def show_table(title, rows, total, events, markdown):
    print(f"\n| {title} | % | per event |\n|---|---|---|" if markdown else f"\n{'%':>6} {'per event':>10}  {title}")
    for name, cost in rows:
        percent, each = 100 * cost / total, cost / events
        print(f"| {name} | {percent:.1f} | {each:,.0f} |" if markdown else f"{percent:6.1f} {each:10,.0f}  {name}")


def library_name(profile, name):
    """Inner functions of Debian's libraries have no names."""
    return f"({os.path.basename(profile.object_of[name])})" if name.startswith("0x") else plain(name)[:60]


def show_tables(profile, events, top, markdown):
    kinds, own, libraries = collections.Counter(), collections.Counter(), collections.Counter()
    for name, cost in profile.own.items():
        kinds[kind_of(name, profile.object_of[name])] += cost
        if not is_own(profile, name):
            libraries[name] += cost
    by_function = charged(profile)
    for name, cost in by_function.items():
        own[plain(name)] += cost
    world = sum(cost for name, cost in by_function.items() if kind_of(name, profile.object_of.get(name, "")) == WORLD)
    print(f"{profile.total / events:,.0f} instructions an event ({events:,} events), {world / events:,.0f} of them for "
          f"the path's own world, with what libraries did for it")
    print(f"{profile.allocations / events:,.1f} allocations and {profile.copies / events:,.1f} calls that copy bytes an event")
    show_table("kind of code", kinds.most_common(), profile.total, events, markdown)
    show_table("own function, with what libraries did for it", own.most_common(top), profile.total, events, markdown)
    rows = [(f"{library_name(profile, name)} ← {cause_of(profile, name)}", cost)
            for name, cost in libraries.most_common(top)]
    show_table("function of a library ← who causes most of it", rows, profile.total, events, markdown)


def command_of(folder, path, events):
    budget = os.path.join(folder, "tests/budget")
    if path == "grpc":
        receiver = os.path.join(folder, "tests/fixtures/receiver")
        return [os.path.join(budget, "grpc_path_main"), receiver, str(events)]
    return [os.path.join(budget, "paths_main"), path, str(events)]


def show_all(folder, budgets):
    print(f"{'path':16} {'instructions per event':>22} {'budget':>8} {'allocations':>12} {'copies':>8}")
    for path, (events, budget) in budgets.items():
        profile = callgrind.measure(command_of(folder, path, events))
        print(f"{path:16} {profile.total / events:22,.0f} {budget:8,} {profile.allocations / events:12,.1f} "
              f"{profile.copies / events:8,.1f}", flush=True)


def show_time(command, top):
    """Samples the whole program, set-up included, by processor time: what perf can do on machines without counters."""
    with tempfile.TemporaryDirectory(prefix="escapement_profile_") as folder:
        data = os.path.join(folder, "perf.data")
        record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "1999", "-o", data, "--"]
        try:
            subprocess.run(record + command, check=True)
        except FileNotFoundError:
            sys.exit("perf is not installed (Debian: linux-perf)")
        report = ["perf", "report", "-q", "-i", data, "--stdio", "--sort", "dso,symbol"]
        lines = subprocess.run(report, check=True, capture_output=True, text=True).stdout.splitlines()
        print("\n".join([line.rstrip()[:150] for line in lines if line.strip()][:top]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("path", nargs="?")
    parser.add_argument("--events", type=int, help="how many; by default as budget.txt says")
    parser.add_argument("--top", type=int, default=25, help="rows of a table")
    parser.add_argument("--function", help="instead: who calls what is named so, and what it calls")
    parser.add_argument("--time", action="store_true", help="instead: samples of processor time by perf")
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    budgets = callgrind.read_budgets(os.path.join(HERE, "budget.txt"))
    if arguments.path is None:
        return show_all(arguments.bin, budgets)
    if arguments.path not in [*budgets, "grpc"]:
        sys.exit(f"no path {arguments.path}: {', '.join([*budgets, 'grpc'])}")
    events = arguments.events or (GRPC_EVENTS if arguments.path == "grpc" else budgets[arguments.path][0])
    if arguments.time:
        return show_time(command_of(arguments.bin, arguments.path, 20 * events), arguments.top)
    profile = callgrind.measure(command_of(arguments.bin, arguments.path, events))
    if arguments.function:
        return show_function(profile, arguments.function, events)
    return show_tables(profile, events, arguments.top, arguments.markdown)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # … | head
    try:
        main()
    except callgrind.Failed as failed:
        sys.exit(str(failed))
