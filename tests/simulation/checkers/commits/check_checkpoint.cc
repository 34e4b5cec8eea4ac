#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "tests/simulation/checkers/commits/commit_checks.h"
#include "tests/simulation/checkers/model/life_model.h"

namespace escapement::simulation {

namespace {

using Kind = StateWrite::Kind;

// The number after `prefix`; nullopt if `name` does not begin with it.
std::optional<uint16_t> NumberOf(absl::string_view name, absl::string_view prefix) {
  uint32_t number = 0;
  if (!absl::StartsWith(name, prefix) || !absl::SimpleAtoi(name.substr(prefix.size()), &number) ||
      number > 0xffff)
    return std::nullopt;
  return static_cast<uint16_t>(number);
}

class CheckpointChecker {
 public:
  CheckpointChecker(const History& history, const Expectations& expected) : history_(history) {
    for (size_t i = 0; i < history.schedules.size(); ++i) {
      Life& known = lives_.try_emplace(history.schedules[i].uid, expected.models[i]).first->second;
      for (const LifeModel::Version& version : known.model.versions()) {
        auto& times = known.times.emplace_back();
        for (const auto& [id, instant] : version.occurrences) times.emplace_back(instant, id);
        std::sort(times.begin(), times.end());
      }
    }
  }

  std::vector<Violation> Run() {
    for (const Commit& commit : history_.commits) {
      commit_ = &commit;
      for (const QueueWrite& write : commit.queue) {
        if (const auto* child = std::get_if<ChildWrite>(&write); child && !child->deleted)
          Place(*child);
      }
      for (const TimesWrite& write : commit.times) Emit(write);
      for (const QueueWrite& write : commit.queue) {
        if (const auto* state = std::get_if<StateWrite>(&write)) Change(*state);
      }
      for (const CheckpointWrite& write : commit.checkpoints) MoveOn(write);
    }
    return std::move(violations_);
  }

 private:
  struct Life {
    explicit Life(const LifeModel& model_of) : model(model_of) {}
    const LifeModel& model;
    std::vector<std::vector<std::pair<absl::Time, std::string>>> times;  // by version, ascending
    std::optional<uint16_t> partition;
    std::set<std::string> emitted;               // occurrences that were emitted or skipped
    std::map<absl::Time, absl::Time> summaries;  // nominal time of the first → of the last
    StateWrite state;
    absl::Time since;  // in this state the schedule owes occurrences from here on
  };

  template <typename... Parts>
  void Report(const std::string& uid, const std::string& occurrence, absl::Time instant,
              const Parts&... parts) {
    violations_.push_back(
        {"checkpoint",
         absl::StrCat("commit ", commit_->seq, " at ",
                      absl::FormatTime(commit_->store_time, absl::UTCTimeZone()), ": ", occurrence,
                      " of ", uid, " at ", absl::FormatTime(instant, absl::UTCTimeZone()), " ",
                      parts...)});
  }

  void Place(const ChildWrite& child) {
    const auto life = lives_.find(child.uid);
    if (life == lives_.end() || life->second.partition.has_value()) return;
    life->second.partition = child.partition;
    of_partition_[child.partition].push_back(&*life);
  }

  void Emit(const TimesWrite& write) {
    if (const auto* emission = std::get_if<EmissionWrite>(&write)) {
      if (!emission->triggered) First(emission->uid, emission->occurrence, emission->nominal);
    } else if (const auto* outcome = std::get_if<OutcomeWrite>(&write)) {
      if (outcome->deleted) return;
      First(outcome->uid, outcome->occurrence, outcome->nominal);
      const auto life = lives_.find(outcome->uid);
      if (outcome->occurrences > 1 && life != lives_.end()) {
        absl::Time& last =
            life->second.summaries.try_emplace(outcome->nominal, outcome->last).first->second;
        last = std::max(last, outcome->last);
      }
    }
  }

  void First(const std::string& uid, const std::string& occurrence, absl::Time nominal) {
    const auto found = lives_.find(uid);
    if (found == lives_.end()) return;
    Life& life = found->second;
    if (!life.emitted.insert(occurrence).second || !life.partition.has_value()) return;
    const bool by_owner =
        std::any_of(commit_->fence.begin(), commit_->fence.end(), [&](const FenceSeen& fence) {
          return NumberOf(fence.lease, "partition/") == life.partition;
        });
    const auto checkpoint = checkpoints_.find(*life.partition);
    if (!by_owner || checkpoint == checkpoints_.end() || nominal >= checkpoint->second) return;
    Report(uid, occurrence, nominal, "is emitted or skipped for the first time, and emitted_to is ",
           absl::FormatTime(checkpoint->second, absl::UTCTimeZone()));
  }

  void Change(const StateWrite& state) {
    const auto found = lives_.find(state.uid);
    if (found == lives_.end()) return;
    Life& life = found->second;
    const bool same = life.state.kind == state.kind && life.state.version == state.version;
    life.state = state;
    if (same) return;  // a launch has only cancelled the runs before it
    life.since = commit_->store_time;
    const auto checkpoint =
        life.partition.has_value() ? checkpoints_.find(*life.partition) : checkpoints_.end();
    if (checkpoint != checkpoints_.end()) Require(state.uid, life, life.since, checkpoint->second);
  }

  void MoveOn(const CheckpointWrite& write) {
    const std::optional<uint16_t> partition = NumberOf(write.checkpoint, "emitted_to/");
    if (!partition.has_value()) return;
    const absl::Time to = FromMicros(write.micros);
    const auto [checkpoint, fresh] = checkpoints_.try_emplace(*partition, to);
    const absl::Time from = fresh ? absl::InfinitePast() : checkpoint->second;
    checkpoint->second = std::max(checkpoint->second, to);
    for (auto* life : of_partition_[*partition]) {
      Require(life->first, life->second, std::max(from, life->second.since), to);
    }
  }

  // Requires that every occurrence in [from, to) has been emitted or skipped.
  void Require(const std::string& uid, const Life& life, absl::Time from, absl::Time to) {
    if (life.state.kind != Kind::kEnabled || from >= to || life.state.version == 0 ||
        life.state.version > life.times.size())
      return;
    const size_t version = life.state.version - 1;
    const auto& times = life.times[version];
    for (auto it =
             std::lower_bound(times.begin(), times.end(), std::make_pair(from, std::string()));
         it != times.end() && it->first < to; ++it) {
      if (life.emitted.count(it->second) > 0 || InSummary(life, it->first) ||
          !Surely(life, version, it->second, it->first))
        continue;
      Report(uid, it->second, it->first, "is neither emitted nor skipped, and emitted_to is ",
             absl::FormatTime(to, absl::UTCTimeZone()));
    }
  }

  static bool InSummary(const Life& life, absl::Time instant) {
    auto after = life.summaries.upper_bound(instant);
    return after != life.summaries.begin() && (--after)->second >= instant;
  }

  // With max_runs, it depends on the phase which occurrence is the last one.
  static bool Surely(const Life& life, size_t version, const std::string& id, absl::Time instant) {
    if (life.model.versions()[version].definition.max_runs == 0) return true;
    return std::all_of(life.model.phases().begin(), life.model.phases().end(),
                       [&](const LifeModel::Phase& phase) {
                         return phase.version != version || !phase.enabled ||
                                life.model.SurelyHas(phase, id, instant);
                       });
  }

  const History& history_;
  std::map<std::string, Life> lives_;  // by uid
  std::map<uint16_t, std::vector<std::pair<const std::string, Life>*>> of_partition_;
  std::map<uint16_t, absl::Time> checkpoints_;
  const Commit* commit_ = nullptr;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckCheckpoint(const History& history, const Expectations& expected) {
  return CheckpointChecker(history, expected).Run();
}

std::vector<Violation> CheckCheckpoint(const History& history) {
  return CheckCheckpoint(history, Expect(history));
}

namespace {

class ChildrenChecker {
 public:
  std::vector<Violation> Run(const History& history) {
    for (const Commit& commit : history.commits) {
      std::set<std::string> touched;  // expressions that the commit touches
      for (const QueueWrite& write : commit.queue) {
        if (const auto* child = std::get_if<ChildWrite>(&write)) {
          if (child->expression.empty()) continue;
          touched.insert(child->expression);
          auto& children = children_[child->expression];
          if (child->deleted) {
            children.erase(child->key);
          } else {
            children[child->key] = child->uid;
          }
        } else if (const auto* in_use = std::get_if<InUseWrite>(&write)) {
          touched.insert(in_use->expression);
          if (in_use->deleted) {
            in_use_.erase(in_use->expression);
          } else {
            in_use_.insert(in_use->expression);
          }
        }
      }
      for (const std::string& expression : touched) Check(commit, expression);
    }
    return std::move(violations_);
  }

 private:
  void Check(const Commit& commit, const std::string& expression) {
    const auto& children = children_[expression];
    if (children.empty() || in_use_.count(expression) > 0) return;
    violations_.push_back(
        {"children",
         absl::StrCat("commit ", commit.seq, " at ",
                      absl::FormatTime(commit.store_time, absl::UTCTimeZone()), ": expression ",
                      absl::BytesToHexString(expression), " is not in use, and ",
                      children.begin()->second, " has a child under it")});
  }

  std::map<std::string, std::map<std::string, std::string>> children_;  // by expression: key → uid
  std::set<std::string> in_use_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckChildren(const History& history) {
  return ChildrenChecker().Run(history);
}

}  // namespace escapement::simulation
