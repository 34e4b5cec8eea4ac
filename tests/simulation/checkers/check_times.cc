#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/checkers/model/life_model.h"

namespace escapement::simulation {

namespace {

// A catch-up decides at most this long before its commit, if emitters' downtimes are the only
// fault.
constexpr absl::Duration kJudgedBefore = absl::Seconds(3);

struct Life {
  const ScheduleLife* life;
  const LifeModel& model;
  absl::Duration jitter_max = absl::ZeroDuration();  // the largest of all versions
};

// How many later occurrences of the version were missed, too: they were due before `missed_before`.
size_t LaterMissed(const LifeModel::Version& version, absl::Time due, absl::Time missed_before) {
  const auto first = std::upper_bound(version.instants.begin(), version.instants.end(), due);
  const auto last =
      std::lower_bound(version.instants.begin(), version.instants.end(), missed_before);
  return last > first ? last - first : 0;
}

// How many missed occurrences the policy still fires, at most.
size_t FiredOfMissed(const Definition& definition) {
  switch (definition.misfire) {
    case Definition::Misfire::kFireAll:
      return definition.max_catch_up;
    case Definition::Misfire::kFireLatest:
      return 1;
    case Definition::Misfire::kSkip:
      return 0;
  }
  return 0;
}

class TimesChecker {
 public:
  TimesChecker(const History& history, const Expectations& expected) : history_(history) {
    for (size_t i = 0; i < history.schedules.size(); ++i) {
      const ScheduleLife& life = history.schedules[i];
      Life& known = lives_.try_emplace(life.uid, Life{&life, expected.models[i], {}}).first->second;
      for (const LifeModel::Version& version : known.model.versions())
        known.jitter_max = std::max(known.jitter_max, version.definition.jitter);
    }
  }

  std::vector<Violation> Run() {
    for (const Commit& commit : history_.commits) {
      commit_ = &commit;
      for (const TimesWrite& write : commit.times) {
        if (const auto* emission = std::get_if<EmissionWrite>(&write)) CheckEmission(*emission);
        if (const auto* outcome = std::get_if<OutcomeWrite>(&write)) CheckOutcome(*outcome);
      }
    }
    for (const Receipt& receipt : history_.receipts) {
      if (receipt.time < receipt.launch)
        violations_.push_back(
            {"times", absl::StrCat("event ", receipt.event_id, " ", receipt.occurrence, " of ",
                                   receipt.uid, " was received before its launch time")});
    }
    return std::move(violations_);
  }

 private:
  template <typename Write, typename... Parts>
  void Report(const Write& write, const Parts&... parts) {
    violations_.push_back(
        {"times", absl::StrCat("commit ", commit_->seq, " at ",
                               absl::FormatTime(commit_->store_time, absl::UTCTimeZone()), ": ",
                               write.occurrence, " of ", write.uid, " ", parts...)});
  }

  const Life* Find(const std::string& uid) const {
    const auto it = lives_.find(uid);
    return it == lives_.end() ? nullptr : &it->second;
  }

  void CheckEmission(const EmissionWrite& write) {
    const Life* life = Find(write.uid);
    if (life == nullptr || write.triggered) return;
    if (write.launch < write.nominal || write.launch > write.nominal + life->jitter_max)
      Report(write, "is launched at ", absl::FormatTime(write.launch, absl::UTCTimeZone()));
    if (!emitted_.insert({write.uid, write.occurrence}).second || !history_.only_downtimes) return;
    const LifeModel::Version* version = life->model.Numbered(write.version);
    if (version == nullptr) return Report(write, "is of version ", write.version);
    // The checker does not know which occurrence is the last one of max_runs.
    if (version->definition.max_runs > 0) return;
    const absl::Time missed_before =
        commit_->store_time - kJudgedBefore - version->definition.threshold;
    if (write.nominal >= missed_before || PausedAt(*life, write.nominal)) return;
    if (LaterMissed(*version, write.nominal, missed_before) >= FiredOfMissed(version->definition))
      Report(write, "is fired late against its misfire policy");
  }

  void CheckOutcome(const OutcomeWrite& write) {
    const auto key = std::make_tuple(write.uid, write.occurrence);
    if (write.deleted) {
      skipped_.erase(key);
      return;
    }
    const auto skipped = skipped_.find(key);
    if (skipped != skipped_.end()) {
      const bool counts_up = write.run_skipped && write.reason == skipped->second.reason &&
                             write.occurrences > skipped->second.occurrences;
      if (!counts_up) Report(write, "was skipped as a whole, and ends again, ", write.reason);
    }
    if (write.run_skipped) {
      skipped_[key] = write;
      if (ended_.count(key) > 0) Report(write, "has ended, and is skipped as a whole");
    } else {
      ended_.insert(key);
    }
    if (write.outcome == Outcome::kSkipped) CheckReason(write);
  }

  void CheckReason(const OutcomeWrite& write) {
    const Life* life = Find(write.uid);
    if (life == nullptr) return Report(write, "is of no schedule that anybody made");
    if (write.reason == "misfire") return CheckMisfire(*life, write);
    if (write.reason == "paused") return CheckPaused(*life, write);
    if (write.reason == "deleted") {
      if (!Deleted(*life)) Report(write, "is skipped (deleted), and nobody deleted its schedule");
      return;
    }
    if (write.reason == "superseded") {
      if (!Superseded(*life, write)) Report(write, "is skipped (superseded), and was not");
      return;
    }
    if (write.reason != "overlap")
      Report(write, "is skipped for an unknown reason: ", write.reason);
  }

  // True if the policy does not fire the skipped occurrence. For a summary its last one decides,
  // since earlier ones are wanted even less. In a pause the threshold of the misfire policy does
  // not count.
  bool Unwanted(const Life& life, const OutcomeWrite& write, bool in_pause) {
    const LifeModel::Version* version = life.model.Numbered(write.version);
    if (version == nullptr) {
      Report(write, "is skipped for version ", write.version, ", which is not known");
      return true;
    }
    const Definition& definition = version->definition;
    const absl::Time missed_before =
        commit_->store_time - (in_pause ? absl::ZeroDuration() : definition.threshold);
    if (write.last >= missed_before) return false;
    const size_t fired =
        write.occurrences > 1 ? definition.max_catch_up : FiredOfMissed(definition);
    return LaterMissed(*version, write.last, missed_before) >= fired;
  }

  void CheckMisfire(const Life& life, const OutcomeWrite& write) {
    if (!write.run_skipped) return Report(write, "has rows, and is skipped (misfire)");
    if (!Unwanted(life, write, /*in_pause=*/false))
      Report(write, "is skipped (misfire) against its policy");
  }

  // "paused" has two explanations. A resume skips occurrences of the pause by its policy, and
  // occurrences from before the pause that have not been launched. An update of a paused schedule
  // skips all that it finds.
  void CheckPaused(const Life& life, const OutcomeWrite& write) {
    bool explained = false;
    bool wanted = false;
    for (const LifeModel::Phase& phase : life.model.phases()) {
      if (!phase.paused || phase.begins_first > commit_->time || write.nominal >= phase.ends_last)
        continue;
      const bool before = write.nominal < phase.begins_first;
      if (before && write.run_skipped && !MayWait(life)) continue;
      if (!phase.owed()) continue;
      const bool policy_counts =
          !before && write.run_skipped && !phase.replaced && phase.version + 1 == write.version;
      if (!policy_counts || Unwanted(life, write, /*in_pause=*/true)) {
        explained = true;
      } else {
        wanted = true;
      }
    }
    if (explained) return;
    Report(write, wanted ? "is skipped (paused) against its policy"
                         : "is skipped (paused), and fell due in no pause");
  }

  // True if occurrences may wait for their launch.
  static bool MayWait(const Life& life) {
    return std::any_of(life.model.versions().begin(), life.model.versions().end(),
                       [](const LifeModel::Version& version) {
                         return version.definition.overlap != Definition::Overlap::kAllow;
                       });
  }

  bool PausedAt(const Life& life, absl::Time due) const {
    return std::any_of(
        life.model.phases().begin(), life.model.phases().end(),
        [&](const LifeModel::Phase& phase) { return phase.paused && phase.May(due); });
  }

  bool Deleted(const Life& life) const {
    const ScheduleChange& last = life.life->changes.back();
    return last.kind == ScheduleChange::Kind::kDelete && last.called <= commit_->time;
  }

  bool Superseded(const Life& life, const OutcomeWrite& write) const {
    return std::any_of(life.model.phases().begin(), life.model.phases().end(),
                       [&](const LifeModel::Phase& phase) {
                         const LifeModel::Version& version = life.model.versions()[phase.version];
                         return (phase.version > 0 || version.definition.max_runs > 0) &&
                                life.model.versions()[phase.version].called <= commit_->time &&
                                !life.model.SurelyHas(phase, write.occurrence, write.nominal);
                       });
  }

  const History& history_;
  std::map<std::string, Life> lives_;
  const Commit* commit_ = nullptr;
  std::set<std::pair<std::string, std::string>> emitted_;
  std::map<std::tuple<std::string, std::string>, OutcomeWrite> skipped_;
  std::set<std::tuple<std::string, std::string>> ended_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckTimes(const History& history, const Expectations& expected) {
  return TimesChecker(history, expected).Run();
}

std::vector<Violation> CheckTimes(const History& history) {
  return CheckTimes(history, Expect(history));
}

namespace {

// At most this much time lies between the decision of a commit and its durability. A store may
// stand still in between for 4 s, and once more before it has done anything. A replica may also be
// cut off from the log for 9 s, while the log loses calls for 8 s.
absl::Duration DecidedBefore(const History& history) {
  return absl::Seconds(history.log.empty() ? 10 : 30);
}

constexpr double kSlewMax = 500e-6;

bool Confirmed(const History& history, absl::Time from, absl::Time to) {
  return std::any_of(history.clock_confirmed.begin(), history.clock_confirmed.end(),
                     [&](absl::Time at) { return at >= from && at <= to; });
}

// The store may follow a step forward of minutes once the step has lasted for five seconds. It may
// follow a larger step if also the kernel calls the clock synchronised and all other machines show
// the same.
constexpr absl::Duration kStepMax = absl::Minutes(10);
constexpr absl::Duration kStepStable = absl::Seconds(5);

bool Followed(const History& history, const Commit& commit, absl::Duration leap) {
  const bool large = leap > kStepMax + DecidedBefore(history);
  return std::any_of(history.clock_set.begin(), history.clock_set.end(), [&](const ClockSet& set) {
    const ClockSet* next = &set + 1;
    const bool lasted = next == history.clock_set.data() + history.clock_set.size() ||
                        next->time >= set.time + kStepStable;
    const bool evidence = set.synchronised && set.everywhere;
    return lasted && set.time + kStepStable <= commit.time && (!large || evidence);
  });
}

bool Plans(const Commit& commit) {
  return std::any_of(commit.checkpoints.begin(), commit.checkpoints.end(),
                     [](const CheckpointWrite& write) {
                       return absl::StartsWith(write.checkpoint, "planned_to/");
                     });
}

}  // namespace

std::vector<Violation> CheckClock(const History& history) {
  std::vector<Violation> violations;
  auto report = [&](const Commit& commit, const std::string& why) {
    violations.push_back(
        {"clock", absl::StrCat("commit ", commit.seq, " at ",
                               absl::FormatTime(commit.time, absl::UTCTimeZone()), ": ", why)});
  };
  const Commit* before = nullptr;
  bool held = false;
  for (const Commit& commit : history.commits) {
    if (before != nullptr) {
      const absl::Duration passed = commit.store_time - before->store_time;
      const absl::Duration real = commit.time - before->time + DecidedBefore(history);
      if (passed < absl::ZeroDuration())
        report(commit,
               absl::StrCat("the store's time went back by ", absl::FormatDuration(-passed)));
      if (passed > real + real * kSlewMax &&
          !Confirmed(history, before->time - DecidedBefore(history), commit.time) &&
          !Followed(history, commit, passed - real))
        report(commit, absl::StrCat("the store's time leapt by ", absl::FormatDuration(passed)));
    }
    before = &commit;
    if (held && Plans(commit) && commit.clock_hold.value_or(true))
      report(commit, "it plans while the clock is held");
    held = commit.clock_hold.value_or(held);
  }
  return violations;
}

namespace {

// For each schedule, the shortest window over which its definitions spread a run. Zero unless all
// of them spread it.
std::map<std::string, absl::Duration> PacedWindows(const History& history) {
  std::map<std::string, absl::Duration> windows;
  for (const ScheduleLife& life : history.schedules) {
    absl::Duration shortest = absl::InfiniteDuration();
    for (const ScheduleChange& change : life.changes) {
      if (change.kind == ScheduleChange::Kind::kCreate ||
          change.kind == ScheduleChange::Kind::kUpdate)
        shortest = std::min(shortest, change.definition.paced);
    }
    windows[life.uid] = life.changes.empty() ? absl::ZeroDuration() : shortest;
  }
  return windows;
}

// How long after the run's launch this event may go at the earliest.
absl::Duration PaceOf(const Receipt& receipt, const std::map<std::string, absl::Duration>& paced) {
  const auto window = paced.find(receipt.uid);
  if (window == paced.end() || receipt.run_count == 0) return absl::ZeroDuration();
  return window->second * static_cast<double>(receipt.index) /
         static_cast<double>(receipt.run_count);
}

}  // namespace

std::vector<Violation> CheckEarly(const History& history, const Expectations& expectations) {
  const ExpectedRuns& expected = expectations.runs;
  std::map<std::string, absl::Time> one_off_due;
  for (const OneOff& one_off : history.one_offs) one_off_due[one_off.event_id] = one_off.due;

  const std::map<std::string, absl::Duration> paced = PacedWindows(history);

  std::vector<Violation> violations;
  auto report = [&](const Receipt& receipt, const std::string& why) {
    violations.push_back(
        {"early", absl::StrCat("event ", receipt.event_id, " ", receipt.occurrence, "[",
                               receipt.index, "] received at ",
                               absl::FormatTime(receipt.time, absl::UTCTimeZone()), ": ", why)});
  };
  for (const Receipt& receipt : history.receipts) {
    absl::Time due = receipt.launch;
    if (receipt.uid.empty()) {
      auto it = one_off_due.find(receipt.event_id);
      if (it == one_off_due.end()) {
        report(receipt, "nobody made it");
        continue;
      }
      due = it->second;
    } else {
      auto it = expected.find({receipt.uid, receipt.occurrence});
      if (it == expected.end()) {
        report(receipt, "it is no occurrence of its schedule");
        continue;
      }
      due = it->second.due + PaceOf(receipt, paced);
    }
    // The platform rounds paces to microseconds.
    if (receipt.time < due - absl::Microseconds(due == receipt.launch ? 0 : 1) ||
        receipt.time < receipt.nominal) {
      report(receipt, absl::StrCat("due ", absl::FormatTime(due, absl::UTCTimeZone())));
    }
  }
  return violations;
}

std::vector<Violation> CheckEarly(const History& history) {
  return CheckEarly(history, Expect(history));
}

}  // namespace escapement::simulation
