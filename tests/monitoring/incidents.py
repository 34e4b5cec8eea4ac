"""Three staged incidents. Each has a fault, panels that lead to its cause, and an alert.

The platform is real and so is Prometheus. Only the windows and waits of the rules are shorter, by the factor SHORTER: an alert
that waits 15 minutes waits 15 seconds.
"""
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from dashboards import PanelReader
from load import Load
from platform_processes import Platform, await_true
from prometheus import Prometheus, shorten

SHORTER = 60
RULES = [Path("deploy/prometheus/recording_rules.yaml"), Path("deploy/prometheus/alerts.yaml")]


@dataclass
class Clue:
    """A panel, and what it shows of the incident."""
    dashboard: str
    title: str
    says: str
    # Gets the values before and during the fault, by legend. True if the panel shows the incident.
    moved: Callable[[dict, dict], bool]
    lasts: bool = True  # false: it shows the incident for some seconds only


@dataclass
class Incident:
    staged: str  # what is done
    stage: Callable[[Platform, Load], None]
    clues: list
    alert: str
    cause: str
    command: list  # of escctl, which names the cause


def stop_target(platform, load):
    platform.processes["other"].signal(signal.SIGSTOP)


def keep_tokens(platform, load):
    platform.escctl("schedule", "update", "gentle", "--http", f"http://{load.other_http}/work/3600000/")


def slow_disk(platform, load):
    platform.delay_syncs(400)


def total(values):
    return sum(values.values())


def grows(by):
    """True if the largest value has grown by so much."""
    return lambda before, during: max(during.values(), default=0) >= max(before.values(), default=0) + by


def stays_below(bound):
    return lambda before, during: 0 <= max(during.values(), default=0) < bound


INCIDENTS = {
    "target_down": Incident(
        "One of two consumers stops answering (SIGSTOP): connections are accepted, and nothing comes back.",
        stop_target,
        [Clue("overview", "Targets in trouble", "an HTTP endpoint is down", lambda before, during: during.get("http", 0) >= 1),
         Clue("overview", "Oldest overdue event", "nothing else is late", stays_below(5)),
         Clue("delivery", "Targets by state", "one HTTP endpoint is open or half open, another one is closed",
              lambda before, during: during.get("http open", 0) + during.get("http half_open", 0) >= 1 and during.get("http closed", 0) >= 1),
         Clue("delivery", "Openings of circuit breakers", "of HTTP alone",
              lambda before, during: during.get("http", 0) > 0 and during.get("grpc", 0) == 0, lasts=False),
         Clue("delivery", "Lateness by handler", "what is sent is on time: the platform is well", stays_below(1)),
         Clue("store", "Commit time", "the store is well", stays_below(1))],
        "EscapementTargetDown", "A target does not answer. The platform and the other targets are well.", ["target", "list"]),
    "policy_full": Incident(
        "A new version of a consumer takes its events, and does not give their tokens back.",
        keep_tokens,
        [Clue("overview", "Events that wait for a token", "more and more", grows(20)),
         Clue("throttling", "Tokens held, of the limit", "the policy is full",
              lambda before, during: during.get("tenants/default/policies/gentle", 0) >= 1),
         Clue("throttling", "Events waiting", "of this policy", grows(20)),
         Clue("throttling", "Oldest waiting event", "grows by a second each second", grows(5)),
         Clue("throttling", "Newest token of a policy", "it gets no token back", grows(5)),
         Clue("throttling", "Granted and released", "nothing is released",
              lambda before, during: before.get("released", 0) > 0 and during.get("released", 1) == 0),
         Clue("delivery", "Lateness by handler", "what is sent is on time", stays_below(1)),
         Clue("overview", "Targets in trouble", "no target is down", stays_below(1))],
        "EscapementPolicyStuck", "The consumers of the policy keep its tokens.", ["policy", "usage", "gentle"]),
    "store_slow": Incident(
        "Each sync of the store's files takes 400 ms longer: strace delays its calls of fdatasync and fsync.",
        slow_disk,
        [Clue("overview", "Lateness of first attempts", "all is late", grows(0.05)),
         Clue("delivery", "Lateness by handler", "of every handler", grows(0.05)),
         Clue("delivery", "Commit time of the store", "and the store is slow", grows(0.2)),
         Clue("store", "Commit time", "the commits take long", grows(0.2)),
         Clue("store", "Commits and syncs", "few syncs a second: the disk takes long for each", lambda before, during: during["syncs"] < 5),
         Clue("store", "Writes slowed down", "RocksDB does not hold writes back: it is the disk", stays_below(1)),
         Clue("delivery", "Time of attempts", "the targets answer as before", stays_below(1)),
         Clue("overview", "Targets in trouble", "no target is down", stays_below(1))],
        "EscapementStoreSlow", "The disk of the store takes long to sync.", ["store", "status"]),
}


def value_text(value, unit):
    if unit == "s":
        return f"{value:.3g} s"
    if unit == "reqps":
        return f"{value:.3g}/s"
    return f"{100 * value:.3g} %" if unit == "percentunit" else f"{value:.6g}"


class Stage:
    """Runs an incident in a folder, with the programs in another one. `say` gets each line of what there is to see."""

    def __init__(self, incident, programs, folder, say):
        self._incident, self._say = incident, say
        self._platform = Platform(programs, folder)
        self._prometheus = None
        try:
            self._platform.await_ready()
            self._load = Load(self._platform)
            self._load.start()
            self._load.start_policy()
            self._prometheus = Prometheus(folder, list(self._platform.http.values()),
                                          [shorten(file.read_text(encoding="utf-8"), SHORTER) for file in RULES])
            self._reader = PanelReader(self._prometheus)
        except BaseException:
            self.end()
            raise

    def _read(self):
        return [self._reader.read(clue.dashboard, clue.title) for clue in self._incident.clues]

    def run(self):
        """Raises AssertionError if a panel does not show the incident, or the alert does not fire, within a minute."""
        incident = self._incident
        await_true("deliveries, releases and commits", self._works)
        await_true("a platform without this alert", lambda: incident.alert not in self._prometheus.firing())
        before = self._read()
        self._say(f"staged: {incident.staged}")
        incident.stage(self._platform, self._load)
        begun = time.monotonic()
        state = {"during": [None] * len(before)}

        def shows():
            for number, (clue, old, new) in enumerate(zip(incident.clues, before, self._read())):
                moved = clue.moved(old, new)
                if moved or clue.lasts:
                    state["during"][number] = new if moved else None
            state["blind"] = [f"{clue.dashboard} / {clue.title}" for clue, new in zip(incident.clues, state["during"]) if new is None]
            state["firing"] = self._prometheus.firing()
            return not state["blind"] and incident.alert in state["firing"]
        try:
            await_true("the incident", shows)
        except AssertionError as error:
            raise AssertionError(f"{error}; panels that do not show it: {state['blind']}; alerts: {sorted(state['firing'])}") from None
        self._say(f"seen after {time.monotonic() - begun:.0f} s; with the rules as they are, the alert waits {SHORTER} times as long")
        for clue, old, new in zip(incident.clues, before, state["during"]):
            self._show(clue, old, new)
        for name, description in sorted(state["firing"].items()):
            self._say(f"alert {name}: {description}")
        self._say(f"cause: {incident.cause}")
        self._say(f"$ escctl {' '.join(incident.command)}")
        for line in self._platform.escctl(*incident.command).splitlines()[:12]:
            self._say("  " + line)

    def _works(self):
        released = self._reader.read("throttling", "Granted and released").get("released", 0)
        return released > 0 and total(self._reader.read("overview", "Events that end")) > 20

    def _show(self, clue, before, during):
        unit = self._reader.unit(clue.dashboard, clue.title)
        self._say(f"{clue.dashboard} / {clue.title}: {clue.says}")
        legends = sorted(before.keys() | during.keys())
        zero = [legend for legend in legends if before.get(legend, 0) == during.get(legend, 0) == 0]
        if zero:
            self._say(f"  0 as before: {', '.join(zero)}")
        for legend in [legend for legend in legends if legend not in zero]:
            old, new = (value_text(values[legend], unit) if legend in values else "–" for values in (before, during))
            self._say(f"  {legend:42} {old:>12} -> {new}")

    def end(self):
        if self._prometheus is not None:
            self._prometheus.end()
        self._platform.end()
