#!/usr/bin/env python3
"""Calculates how evenly tenants load 64 cells. Prints the tables of docs/design/cells.md, which says what a cell is.

The same arguments always print the same tables: all chance comes from hashes of names. The constants are assumptions,
except for the bytes and rates, which say where they come from.

A tenant has schedules, pending one-off events and a time zone. Its load is the bytes that it stores, its events per second
on average, and its events that are due in single seconds. Cron expressions fire at second 0 of a minute.
"""
import argparse
import hashlib
import math
import sys
from typing import NamedTuple

CELLS = 64
TENANTS = 10_000
SCHEDULES = 1_000_000_000
DAY_S = 86_400
SCHEDULE_BYTES = 1000  # with one child, a label, 100 B of payload and its counts: docs/design/cells.md
PENDING_BYTES = 304  # with 500 B of payload: docs/performance.md
OUTCOME_BYTES = 130  # of a run of one event: docs/design/cells.md
KEPT_S = 7 * DAY_S  # outcomes
DELIVERED_PER_S = 71_000  # by a cell over gRPC: half of the rate of docs/performance.md, because it is replicated

# The part of all schedules that fires each minute, each five minutes and so on. The last three fire once a day: at local
# midnight, at another full hour, or at any minute. Each tenant has a mix of its own around these.
MIX = {"minute": 0.005, "five": 0.015, "quarter": 0.03, "hour": 0.10, "midnight": 0.20, "full_hour": 0.25, "any_minute": 0.40}
RATES = {"minute": 1 / 60, "five": 1 / 300, "quarter": 1 / 900, "hour": 1 / 3600}  # per second; the others fire daily
# Minutes by which a zone is ahead of UTC, and the part of tenants in it: the region's zone, UTC, and others.
ZONES = ((60, 0.60), (0, 0.20), (-300, 0.05), (-480, 0.05), (330, 0.05), (480, 0.05))
# Minutes of the UTC day, one of which begins with the fullest second: all midnights, and full hours that are no midnight.
MOMENTS = tuple(sorted({-ahead % 1440 for ahead, _ in ZONES} | {720, 750}))
ONE_OFF_PART = 0.9  # of the largest tenant's events; of other tenants' events 0 to 1
PENDING_S = 3600  # how long before its due time a one-off event is created, on average

seed = 1


def chance(*names: object) -> float:
    """A number in (0, 1) that follows from the seed and the names."""
    text = "/".join(map(str, (seed, *names))).encode()
    return (int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "big") + 0.5) / 2**48


class Load:
    """Of a tenant or a cell: stored bytes, events per second on average, and events due in the second of each moment."""

    def __init__(self, stored: float = 0, mean: float = 0, due: list[float] | None = None):
        self.stored, self.mean = stored, mean
        self.due = due or [0.0] * len(MOMENTS)

    def add(self, other: "Load", times: float = 1) -> "Load":
        self.stored += times * other.stored
        self.mean += times * other.mean
        for i, due in enumerate(other.due):
            self.due[i] += times * due
        return self


class Tenant(NamedTuple):
    name: str
    schedules: Load
    one_off: Load
    load: Load  # both


def zone_of(name: str) -> int:
    place = chance("zone", name)
    for ahead, part in ZONES:
        place -= part
        if place < 0:
            return ahead
    return ZONES[-1][0]


def firing_of(name: str, count: float) -> dict[str, float]:
    """How many of the tenant's schedules fire so."""
    parts = {kind: -part * math.log(chance("mix", name, kind)) for kind, part in MIX.items()}
    return {kind: count * part / sum(parts.values()) for kind, part in parts.items()}


def due_at(firing: dict[str, float], ahead: int, minute: int) -> float:
    """Events due in the first second of a minute of the UTC day, in a zone that is so many minutes ahead."""
    local = (minute + ahead) % 1440
    events = firing["minute"] + firing["any_minute"] / 1440
    for kind, every in (("five", 5), ("quarter", 15), ("hour", 60)):
        if local % every == 0:
            events += firing[kind]
    if local % 60 == 0:
        events += firing["midnight"] if local == 0 else firing["full_hour"] / 23
    return events


def schedule_load(name: str, count: float) -> Load:
    """Of so many schedules with the tenant's mix and zone."""
    firing = firing_of(name, count)
    mean = sum(events * RATES.get(kind, 1 / DAY_S) for kind, events in firing.items())
    due = [due_at(firing, zone_of(name), minute) for minute in MOMENTS]
    return Load(count * SCHEDULE_BYTES + mean * KEPT_S * OUTCOME_BYTES, mean, due)


def one_off_load(mean: float) -> Load:
    """Of so many one-off events per second, which are due at any time."""
    return Load(mean * (PENDING_S * PENDING_BYTES + KEPT_S * OUTCOME_BYTES), mean, [mean] * len(MOMENTS))


def make_tenants(count: int, exponent: float) -> list[Tenant]:
    """Tenant r has a mean rate in proportion to 1 / r^exponent. All together have SCHEDULES."""
    tenants = []
    total = 0.0  # schedules, if the first tenant has one event per second
    for rank in range(1, count + 1):
        one_off = ONE_OFF_PART if rank == 1 else chance("one-off", rank)
        one_schedule = schedule_load(str(rank), 1)
        schedules = rank**-exponent * (1 - one_off) / one_schedule.mean
        parts = (Load().add(one_schedule, schedules), one_off_load(rank**-exponent * one_off))
        tenants.append(Tenant(str(rank), *parts, sum_of(parts)))
        total += schedules
    return [part_of(t, SCHEDULES / total) for t in tenants]


def part_of(tenant: Tenant, part: float, name: str = "") -> Tenant:
    return Tenant(name or tenant.name, *(Load().add(load, part) for load in tenant[1:]))


def cut(tenants: list[Tenant], part_max: float) -> list[Tenant]:
    """Cuts each tenant whose size (Filling) is above part_max into several tenants."""
    size = Filling(tenants, 1).size
    pieces = {t.name: math.ceil(size[t.name] / part_max) for t in tenants}
    return [part_of(t, 1 / pieces[t.name], f"{t.name}.{i}") for t in tenants for i in range(pieces[t.name])]


def sum_of(loads) -> Load:
    whole = Load()
    for load in loads:
        whole.add(load)
    return whole


Placement = dict[str, int]  # tenant to cell


class Filling:
    """Cells as they fill up. A tenant's shares are its part of all stored bytes, and its events of each moment as a part
    of the installation's fullest second. A cell is as full as the largest sum of one of these shares."""

    def __init__(self, tenants: list[Tenant], cells: int):
        whole = sum_of(t.load for t in tenants)
        peak = max(whole.due)
        self.shares = {t.name: [t.load.stored / whole.stored, *(due / peak for due in t.load.due)] for t in tenants}
        self.size = {name: max(shares) for name, shares in self.shares.items()}
        self.sums = [[0.0] * (1 + len(MOMENTS)) for _ in range(cells)]
        self.full = [0.0] * cells

    def full_with(self, cell: int, name: str) -> float:
        return max(map(float.__add__, self.sums[cell], self.shares[name]))

    def put(self, cell: int, name: str, times: int = 1) -> None:
        self.sums[cell] = [total + times * share for total, share in zip(self.sums[cell], self.shares[name])]
        self.full[cell] = max(self.sums[cell])


def by_hash(tenants: list[Tenant], cells: int) -> Placement:
    return {t.name: int(chance("cell", t.name) * 2**48) % cells for t in tenants}


def by_highest_hash(tenants: list[Tenant], cells: int) -> Placement:
    """Rendezvous hashing: each tenant is in the cell whose hash with the tenant is the highest."""
    placement = {}
    for tenant in tenants:
        hashes = hashlib.shake_128(f"{seed}/cells/{tenant.name}".encode()).digest(8 * cells)
        placement[tenant.name] = max(range(cells), key=lambda cell: hashes[8 * cell:8 * cell + 8])
    return placement


def by_two_choices(tenants: list[Tenant], cells: int) -> Placement:
    """Tenants come in any order, with known sizes. Each goes to the emptier one of the two cells that its hashes name."""
    filling = Filling(tenants, cells)
    placement = {}
    for name in sorted((t.name for t in tenants), key=lambda name: chance("arrival", name)):
        choices = [int(chance(which, name) * cells) for which in ("first", "second")]
        placement[name] = min(choices, key=filling.full.__getitem__)
        filling.put(placement[name], name)
    return placement


def by_table(tenants: list[Tenant], cells: int) -> Placement:
    """The table that a program would make: the largest tenants first, each to the cell that is then the emptiest."""
    filling = Filling(tenants, cells)
    placement = {}
    for name in sorted((t.name for t in tenants), key=lambda name: (-filling.size[name], name)):
        placement[name] = filling.full.index(min(filling.full))
        filling.put(placement[name], name)
    return placement


def with_new_cell(tenants: list[Tenant], placement: Placement, cells: int) -> Placement:
    """Adds a cell to `cells` others and fills it: as long as possible the fullest one gives it the largest tenant that fits."""
    filling = Filling(tenants, cells + 1)
    for name, cell in placement.items():
        filling.put(cell, name)
    placement = dict(placement)
    donors = set(range(cells))
    while donors:
        donor = max(donors, key=filling.full.__getitem__)
        room = 1 / (cells + 1)
        fits = [name for name, cell in placement.items() if cell == donor and filling.size[name] <= filling.full[donor] - room
                and filling.full_with(cells, name) <= room]
        if not fits:
            donors.remove(donor)
            continue
        name = max(fits, key=lambda name: (filling.size[name], name))
        filling.put(donor, name, -1)
        filling.put(cells, name)
        placement[name] = cells
    return placement


def loads_of(tenants: list[Tenant], placement: Placement, cells: int, spread: str = "") -> list[Load]:
    """The load of each cell. The one-off events of the tenant `spread` are in all cells alike."""
    loads = [Load() for _ in range(cells)]
    for tenant in tenants:
        home = loads[placement[tenant.name]]
        if tenant.name != spread:
            home.add(tenant.load)
            continue
        home.add(tenant.schedules)
        for load in loads:
            load.add(tenant.one_off, 1 / cells)
    return loads


class Fullest(NamedTuple):
    """The highest of all cells, each as a multiple of a cell's even part of the whole."""
    stored: float
    mean: float
    second: float  # a cell's own fullest second, of a part of the installation's fullest second


def fullest(loads: list[Load], whole: Load | None = None, cells: int = 0) -> Fullest:
    whole, cells = whole or sum_of(loads), cells or len(loads)
    return Fullest(max(load.stored for load in loads) * cells / whole.stored, max(load.mean for load in loads) * cells / whole.mean,
                   max(max(load.due) for load in loads) * cells / max(whole.due))


def resized(tenants: list[Tenant]) -> list[Tenant]:
    """The tenants when each has changed by a factor between 1/2 and 2."""
    return [part_of(t, 4 ** (chance("resized", t.name) - 0.5)) for t in tenants]


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows))


FULLEST = ["stored", "mean rate", "fullest second"]


def numbers(result: Fullest) -> list[str]:
    return [f"{value:.2f}" for value in result]


def placement_table(tenants_by_title: dict[str, list[Tenant]], cells: int) -> str:
    rows = []
    for title, tenants in tenants_by_title.items():
        whole = sum_of(t.load for t in tenants)
        rows.append([title, "(its largest tenant alone)", *numbers(fullest([t.load for t in tenants], whole, cells))])
        for name, place in (("hash", by_hash), ("two choices", by_two_choices), ("table", by_table)):
            rows.append([title, name, *numbers(fullest(loads_of(tenants, place(tenants, cells), cells)))])
    title, tenants = list(tenants_by_title.items())[-1]
    later = fullest(loads_of(resized(tenants), by_table(tenants, cells), cells))
    rows.append([title, "the same table when sizes have changed by ½ to 2", *numbers(later)])
    return table(["tenants", "placement", *FULLEST], rows)


def spread_table(tenants_by_title: dict[str, list[Tenant]], cells: int) -> str:
    rows = []
    for title, tenants in list(tenants_by_title.items())[:2]:
        placement = by_table(tenants, cells)
        for where, spread in (("in its cell", ""), ("in all cells", tenants[0].name)):
            rows.append([title, where, *numbers(fullest(loads_of(tenants, placement, cells, spread)))])
    return table(["tenants", "one-off events of the largest tenant", *FULLEST], rows)


def growth_table(tenants: list[Tenant], cells: int) -> str:
    whole = sum_of(t.load for t in tenants)
    before = by_table(tenants, cells - 1)
    rows = []
    for name, old, new in (
            ("hash, modulo the number of cells", by_hash(tenants, cells - 1), by_hash(tenants, cells)),
            ("highest hash (rendezvous)", by_highest_hash(tenants, cells - 1), by_highest_hash(tenants, cells)),
            ("table", before, with_new_cell(tenants, before, cells - 1))):
        moved = [t for t in tenants if old[t.name] != new[t.name]]
        stored = sum(t.load.stored for t in moved) / whole.stored
        rows.append([name, f"{len(moved):,}", f"{100 * stored:.1f} %", *numbers(fullest(loads_of(tenants, new, cells)))])
    return table([f"{cells - 1} to {cells} cells", f"of {len(tenants):,} tenants move", "of stored bytes", *FULLEST], rows)


def region_table(tenants: list[Tenant], cells: int) -> str:
    loads = loads_of(tenants, by_table(tenants, cells), cells)
    whole = sum_of(loads)
    pending = sum(t.one_off.mean for t in tenants) * PENDING_S
    second = max(max(load.due) for load in loads)
    moment = MOMENTS[whole.due.index(max(whole.due))]
    rows = [
        ["schedules", f"{SCHEDULES / 1e6:,.0f} M", f"{SCHEDULES / cells / 1e6:,.1f} M on average"],
        ["pending one-off events", f"{pending / 1e6:,.0f} M", f"{pending / cells / 1e6:,.1f} M on average"],
        ["stored", f"{whole.stored / 1e12:,.1f} TB", f"{max(load.stored for load in loads) / 1e9:,.0f} GB"],
        ["… of it outcomes", f"{whole.mean * KEPT_S * OUTCOME_BYTES / 1e12:,.1f} TB", ""],
        ["events, mean rate", f"{whole.mean:,.0f}/s", f"{max(load.mean for load in loads):,.0f}/s"],
        [f"events due in the fullest second ({moment // 60:02}:{moment % 60:02} UTC)", f"{max(whole.due) / 1e6:,.0f} M",
         f"{second / 1e6:,.1f} M"],
        [f"… delivered at {DELIVERED_PER_S:,}/s by each cell", "", f"in {second / DELIVERED_PER_S:,.0f} s"],
    ]
    return table(["", "all cells", "the fullest cell"], rows)


def report(count: int, cells: int) -> str:
    largest = make_tenants(count, 1.0)
    capped = cut(largest, 0.5 / cells)
    tenants = {"Zipf 1.0": largest, "Zipf 0.8": make_tenants(count, 0.8), "Zipf 1.0, none above half a cell": capped}
    return "\n\n".join((placement_table(tenants, cells), spread_table(tenants, cells), growth_table(capped, cells),
                        region_table(capped, cells)))


def main() -> int:
    global seed
    parser = argparse.ArgumentParser(prog="tools/dev cells", description="Calculates how evenly tenants load cells (docs/design/cells.md).")
    parser.add_argument("--tenants", type=int, default=TENANTS)
    parser.add_argument("--cells", type=int, default=CELLS)
    parser.add_argument("--seed", type=int, default=seed)
    arguments = parser.parse_args()
    if arguments.tenants < 1 or arguments.cells < 2:
        parser.error("there must be a tenant and two cells")
    seed = arguments.seed
    print(report(arguments.tenants, arguments.cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
