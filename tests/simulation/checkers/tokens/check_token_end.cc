#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/tokens/token_checks.h"
#include "tests/simulation/record/token_replay.h"

namespace escapement::simulation {
namespace {

class TokenEndChecker {
 public:
  std::vector<Violation> Run(const History& history) {
    for (const Commit& commit : history.commits) {
      seq_ = commit.seq;
      const TokenReplay::Changes changes = replay_.Apply(commit);
      Collect(commit);
      for (const TokenReplay::HolderChange& added : changes.added) CheckAdded(added);
      for (const TokenReplay::HolderChange& removed : changes.removed) CheckRemoved(removed);
      for (const TokenReplay::RowChange& row : changes.waiting_added) CheckWaiting(commit, row);
      for (const auto& [grant, events] : claimed_) CheckClaimed(grant, events);
      for (const auto& [run, events] : ended_) CheckEnded(run, events);
      CheckCounts(commit);
    }
    CheckWords(history);
    return std::move(violations_);
  }

 private:
  using Run_ = TokenReplay::Run;
  using ByRun = std::map<Run_, std::vector<Indices>>;

  // Collects what this commit claims, ends, and puts into `events` or `parked`.
  void Collect(const Commit& commit) {
    claimed_.clear();
    ended_.clear();
    put_.clear();
    for (const ThrottleWrite& write : commit.throttle) {
      if (const auto* claim = std::get_if<ClaimWrite>(&write)) {
        auto& events = claimed_[claim->grant];
        events.insert(events.end(), claim->events.begin(), claim->events.end());
      } else if (const auto* end = std::get_if<EndWrite>(&write)) {
        ended_[{end->uid, end->occurrence}].push_back(end->events);
      } else if (const auto* row = std::get_if<RowWrite>(&write);
                 row != nullptr && !row->deleted && row->table != RowWrite::Table::kWaiting) {
        const Run_ run{row->uid, row->occurrence};
        put_[run].push_back(row->events);
        // As below, if the schedule has no policy any more.
        if (row->table == RowWrite::Table::kEvents && !ByOwner(commit) &&
            replay_.place(run, row->events.first).waiting > 0)
          made_again_.insert(run);
      }
    }
    // A change back to the occurrence makes a launch record, although a row of a former version
    // still waits.
    for (const TimesWrite& write : commit.times) {
      const auto* outcome = std::get_if<OutcomeWrite>(&write);
      if (outcome != nullptr && !outcome->deleted && outcome->run_skipped)
        made_again_.insert({outcome->uid, outcome->occurrence});
      const auto* emission = std::get_if<EmissionWrite>(&write);
      if (emission == nullptr || !emission->record) continue;
      const Run_ run{emission->uid, emission->occurrence};
      if (replay_.place(run, 0).waiting > 0) made_again_.insert(run);
    }
  }

  template <typename... Parts>
  void Report(const Run_& run, const Indices& events, const Parts&... parts) {
    violations_.push_back(
        {"token_end", absl::StrCat("commit ", seq_, ": ", run.first, " ", run.second, "[",
                                   events.first, " +", events.count, "] ", parts...)});
  }

  void CheckAdded(const TokenReplay::HolderChange& added) {
    if (added.reused) Report(added.run, added.events, "was granted by a name that had been in use");
    if (!added.fresh) Report(added.run, added.events, "came into a grant that was there already");
    // An event that keeps its token for its next attempt is claimed then.
    if (!added.asleep) {
      for (const Indices& events : Without(added.events, claimed_[added.grant]))
        Report(added.run, events, "was granted and not claimed");
    }
    if (!replay_.limits_of(added.run).contains(added.limits))
      Report(added.run, added.events, "holds tokens of other limits than it waited for");
    for (uint64_t i = added.events.first; i < added.events.first + added.events.count; ++i) {
      const TokenReplay::Place place = replay_.place(added.run, i);
      if (place.held > 1) Report(added.run, {i, 1}, "holds ", place.held, " tokens");
      if (place.ended > 0) Report(added.run, {i, 1}, "was granted after its end");
      if (place.waiting > 0 && made_again_.count(added.run) == 0)
        Report(added.run, {i, 1}, "was granted and still waits");
    }
  }

  static bool Has(const ByRun& events, const Run_& run, uint64_t index) {
    auto it = events.find(run);
    if (it == events.end()) return false;
    for (const Indices& range : it->second) {
      if (index >= range.first && index < range.first + range.count) return true;
    }
    return false;
  }

  // An event that loses its token may wait again and even get a new token in the same commit.
  void CheckRemoved(const TokenReplay::HolderChange& removed) {
    for (uint64_t i = removed.events.first; i < removed.events.first + removed.events.count; ++i) {
      const TokenReplay::Place place = replay_.place(removed.run, i);
      const bool ended = Has(ended_, removed.run, i);
      const bool goes_on = place.waiting > 0 || place.held > 0 || Has(put_, removed.run, i);
      if (!ended && !goes_on)
        Report(removed.run, {i, 1}, "lost its token without outcome and without a row");
      if (ended && goes_on && made_again_.count(removed.run) == 0)
        Report(removed.run, {i, 1}, "has ended and waits again");
    }
  }

  // True if a token manager made the commit.
  static bool ByOwner(const Commit& commit) {
    return std::any_of(commit.fence.begin(), commit.fence.end(), [](const FenceSeen& fence) {
      return absl::StartsWith(fence.lease, "policy_shard/");
    });
  }

  void CheckWaiting(const Commit& commit, const TokenReplay::RowChange& row) {
    const bool by_owner = ByOwner(commit);
    for (uint64_t i = row.events.first; i < row.events.first + row.events.count; ++i) {
      const TokenReplay::Place place = replay_.place(row.run, i);
      if (place.waiting == 0) continue;  // the row lasts only within the commit
      if (place.ended > 0) return Report(row.run, row.events, "waits after its end");
      if (place.held > 0 && made_again_.count(row.run) == 0)
        return Report(row.run, row.events, "waits and holds a token");
      if (place.waiting < 2) continue;
      if (by_owner && made_again_.count(row.run) == 0)
        return Report(row.run, row.events, "waits twice");
      made_again_.insert(row.run);
    }
  }

  void CheckClaimed(const GrantName& name, const std::vector<Indices>& events) {
    const TokenReplay::Grant* grant = replay_.grant(name);
    for (const Indices& claimed : events) {
      if (grant == nullptr) {
        Report({name.policy, absl::StrCat("grant ", name.epoch, ".", name.number)}, claimed,
               "is claimed by a grant that is not there");
        continue;
      }
      for (const Indices& without : Without(claimed, grant->holders))
        Report(grant->run, without, "is claimed without holding a token");
    }
  }

  void CheckEnded(const Run_& run, const std::vector<Indices>& ends) {
    if (!replay_.throttled(run)) return;
    for (const Indices& events : ends) {
      for (uint64_t i = events.first; i < events.first + events.count; ++i) {
        const TokenReplay::Place place = replay_.place(run, i);
        if (place.ended > 1) return Report(run, {i, 1}, "has two outcomes");
        if (place.held > 0) return Report(run, {i, 1}, "has ended and keeps its token");
        if (place.waiting > 0 && made_again_.count(run) == 0)
          return Report(run, {i, 1}, "has ended and still waits");
      }
    }
  }

  // Compares the last counts that the commit writes for a policy with its holders after the commit.
  void CheckCounts(const Commit& commit) {
    std::map<std::string, const CountsWrite*> counts;
    for (const ThrottleWrite& write : commit.throttle) {
      if (const auto* one = std::get_if<CountsWrite>(&write)) counts[one->policy] = one;
    }
    for (const auto& [policy, last] : counts) {
      const uint64_t held = replay_.held(policy);
      if (!last->deleted && last->held != held) {
        violations_.push_back(
            {"token_end", absl::StrCat("commit ", seq_, ": policy ", policy, " counts ", last->held,
                                       " holders, and has ", held)});
      }
    }
  }

  // If a consumer's result was confirmed as taking effect, the event must have ended with it.
  void CheckWords(const History& history) {
    std::map<Run_, std::vector<const DoneRow*>> rows;
    for (const DoneRow& row : history.done) rows[TokenReplay::RunOf(row)].push_back(&row);
    for (const Work& work : history.works) {
      if (!work.took_effect || work.word == WorkWord::kNone || work.word == WorkWord::kFailed)
        continue;
      const Outcome said =
          work.word == WorkWord::kSucceeded ? Outcome::kSucceeded : Outcome::kFailed;
      const Receipt& receipt = history.receipts[work.receipt];
      const Run_ run = TokenReplay::RunOf(receipt);
      for (const DoneRow* row : rows[run]) {
        if (receipt.index < row->first || receipt.index >= row->first + row->count) continue;
        if (row->outcome != said)
          Report(run, {receipt.index, 1}, "was completed, but ended otherwise: ", row->reason);
      }
    }
  }

  TokenReplay replay_;
  std::map<GrantName, std::vector<Indices>> claimed_;
  ByRun ended_;
  ByRun put_;
  std::set<Run_> made_again_;
  uint64_t seq_ = 0;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckTokenEnd(const History& history) {
  return TokenEndChecker().Run(history);
}

}  // namespace escapement::simulation
