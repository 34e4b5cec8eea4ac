#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/record/store_observer.h"

namespace escapement::simulation {
namespace {

using Kind = StateWrite::Kind;

constexpr absl::Duration kOverdueMax = absl::Seconds(30);
// The target of a schedule whose attempts hang may be down. Then its events that have failed wait
// for a probe each minute, and the hanging schedule has its turn before them.
constexpr absl::Duration kProbesMax = absl::Minutes(2);

class OverdueChecker {
 public:
  OverdueChecker(const History& history, const Expectations& expected)
      : history_(history), expected_(expected.runs), times_(history.commits) {
    if (history.hanging.empty()) return;
    for (const ScheduleLife& life : history.schedules) {
      authorities_[life.uid] = life.target;
      if (life.id != history.hanging) continue;
      hanging_.insert(life.uid);
      hanging_authority_ = life.target;
    }
    for (const Receipt& receipt : history.receipts) {
      kinds_[receipt.uid.empty() ? receipt.event_id : receipt.uid] = receipt.kind;
      if (hanging_.contains(receipt.uid)) hanging_kind_ = receipt.kind;
    }
  }

  std::vector<Violation> Run() {
    if (history_.calm == absl::InfiniteFuture() || history_.commits.empty()) return {};
    for (const Commit& commit : history_.commits) {
      now_ = commit.time;
      for (const QueueWrite& write : commit.queue)
        std::visit([this](const auto& one) { Take(one); }, write);
      for (const TimesWrite& write : commit.times) Emit(write);
    }
    for (const auto& [key, row] : rows_) CheckRow(row);
    for (const auto& [claim, open] : claims_) CheckClaim(claim, open);
    CheckEmitted();
    return std::move(violations_);
  }

 private:
  struct Row {
    QueuePut put;
    absl::Time since;  // when the row was put
  };
  struct Claim {
    ClaimPut put;
    absl::Time since;
  };
  struct State {
    Kind kind = Kind::kGone;
    absl::Time since;
  };

  template <typename... Parts>
  void Report(const Parts&... parts) {
    violations_.push_back({"overdue", absl::StrCat(parts...)});
  }

  static std::string Text(absl::Time time) { return absl::FormatTime(time, absl::UTCTimeZone()); }

  // True if the events may be for the target of the hanging schedule: nothing shows another one.
  bool MayBeForHanging(const std::string& uid, const std::string& occurrence) const {
    if (history_.hanging.empty()) return false;
    const auto authority = authorities_.find(uid);
    if (authority != authorities_.end() && authority->second != hanging_authority_) return false;
    const auto kind = kinds_.find(uid.empty() ? occurrence : uid);
    return kind == kinds_.end() || hanging_kind_.empty() || kind->second == hanging_kind_;
  }

  bool MayWaitForProbes(const QueuePut& put) const {
    // A one-off event may wait because of attempts of others: they are a group.
    return (put.attempts > 0 || put.uid.empty()) && MayBeForHanging(put.uid, put.occurrence);
  }

  // An event that was out at handlers that were lost is sent alone. It waits for that in its claim.
  bool MayWaitForProbes(const ClaimPut& put) const {
    return std::any_of(put.events.begin(), put.events.end(), [this](const ClaimedEvents& events) {
      return events.lost_claims > 0 && MayBeForHanging(events.uid, events.occurrence);
    });
  }

  void CheckRow(const Row& row) {
    absl::Time from = std::max({times_.ShownBy(row.put.due), row.since, history_.calm});
    if (!row.put.uid.empty()) {
      if (hanging_.contains(row.put.uid)) return;  // its group waits for probes of its own
      const State& state = states_[row.put.uid];
      // Rows of paused and deleted schedules are not claimed.
      if (state.kind != Kind::kEnabled && state.kind != Kind::kFinished) return;
      from = std::max(from, state.since);
    } else if (claimed_.count(row.put.occurrence) > 0) {
      return;  // the row stays until its claim ends
    } else if (const auto it = last_claimed_.find(row.put.occurrence); it != last_claimed_.end()) {
      from = std::max(from, it->second);
    }
    if (now_ - from <=
        kOverdueMax + (MayWaitForProbes(row.put) ? kProbesMax : absl::ZeroDuration()))
      return;
    Report(row.put.uid, " ", row.put.occurrence, "[", row.put.events.first, " +",
           row.put.events.count, "] due ", Text(row.put.due), " was not claimed from ", Text(from),
           " to ", Text(now_));
  }

  void CheckClaim(const ClaimId& id, const Claim& claim) {
    const absl::Time from = std::max(claim.since, history_.calm);
    const absl::Duration probes = MayWaitForProbes(claim.put) ? kProbesMax : absl::ZeroDuration();
    if (now_ - from <= claim.put.timeout + kOverdueMax + probes) return;
    Report("claim ", id.shard, "/", id.epoch, ".", id.number, " was open from ", Text(from), " to ",
           Text(now_));
  }

  void Take(const QueuePut& put) {
    if (put.table != RowWrite::Table::kEvents) return;
    // A row that is put again counts as a new one.
    Drop(put.key);
    rows_[put.key] = {put, now_};
    if (put.uid.empty()) one_offs_[put.occurrence] = put.key;
  }

  void Take(const QueueGone& gone) { Drop(gone.key); }

  void Drop(uint64_t key) {
    const auto row = rows_.find(key);
    if (row == rows_.end()) return;
    if (now_ > history_.calm) CheckRow(row->second);
    rows_.erase(row);
  }

  void Take(const ClaimPut& put) {
    claims_[put.claim] = {put, now_};
    for (const ClaimedEvents& events : put.events) {
      if (!events.uid.empty()) continue;
      // Until this claim the row has waited.
      const auto row = rows_.find(one_offs_[events.occurrence]);
      if (row != rows_.end() && now_ > history_.calm) CheckRow(row->second);
      claimed_.insert(events.occurrence);
      last_claimed_[events.occurrence] = now_;
    }
  }

  void Take(const ClaimGone& gone) {
    const auto claim = claims_.find(gone.claim);
    if (claim == claims_.end()) return;
    if (now_ > history_.calm) CheckClaim(claim->first, claim->second);
    for (const ClaimedEvents& events : claim->second.put.events) {
      if (events.uid.empty()) claimed_.erase(events.occurrence);
    }
    claims_.erase(claim);
  }

  void Take(const StateWrite& write) {
    State& state = states_[write.uid];
    if (state.kind != write.kind) state.since = now_;
    state.kind = write.kind;
  }

  void Take(const ChildWrite&) {}
  void Take(const InUseWrite&) {}
  void Take(const RequestWrite&) {}
  void Take(const OneOffEnd&) {}

  void Emit(const TimesWrite& write) {
    if (const auto* emission = std::get_if<EmissionWrite>(&write)) {
      emitted_.try_emplace(absl::StrCat(emission->uid, " ", emission->occurrence), now_);
    } else if (const auto* outcome = std::get_if<OutcomeWrite>(&write);
               outcome != nullptr && !outcome->deleted) {
      emitted_.try_emplace(absl::StrCat(outcome->uid, " ", outcome->occurrence), now_);
      if (outcome->occurrences > 1)
        summaries_[outcome->uid].emplace_back(outcome->nominal, outcome->last);
    }
  }

  bool InSummary(const std::string& uid, absl::Time due) const {
    const auto of_life = summaries_.find(uid);
    return of_life != summaries_.end() &&
           std::any_of(of_life->second.begin(), of_life->second.end(), [&](const auto& summary) {
             return due >= summary.first && due <= summary.second;
           });
  }

  // Checks when occurrences were emitted. check_lost checks that they have an outcome. An
  // occurrence of a pause is emitted by the resume, so it is not checked here.
  void CheckEmitted() {
    for (const auto& [name, run] : expected_) {
      const absl::Time due = times_.ShownBy(run.due);
      if (!run.required || run.backfilled || due <= history_.calm) continue;
      const auto it = emitted_.find(absl::StrCat(name.first, " ", name.second));
      const absl::Time emitted = it == emitted_.end() ? now_ : it->second;
      if (emitted - due <= kOverdueMax || PausedAt(name.first, run.due) ||
          (it == emitted_.end() && InSummary(name.first, run.due)))
        continue;
      Report(name.first, " ", name.second, " due ", Text(run.due), " was not emitted until ",
             Text(emitted));
    }
  }

  bool PausedAt(const std::string& uid, absl::Time due) const {
    for (const ScheduleLife& life : history_.schedules) {
      if (life.uid != uid) continue;
      bool paused = false;
      for (const ScheduleChange& change : life.changes) {
        if (change.called > due) break;
        if (change.kind == ScheduleChange::Kind::kPause) paused = true;
        // An occurrence due while the resume was under way may follow either side.
        if (change.kind == ScheduleChange::Kind::kResume && change.answered < due) paused = false;
      }
      return paused;
    }
    return false;
  }

  const History& history_;
  const ExpectedRuns& expected_;
  const StoreTimes times_;
  std::unordered_set<std::string> hanging_;  // uids of the schedule whose attempts hang
  // The target of this schedule: its authority and kind; "" before one of its attempts arrived.
  std::string hanging_authority_;
  std::string hanging_kind_;
  // The targets of the others: authorities by uid, kinds by uid or id of a one-off event.
  std::unordered_map<std::string, std::string> authorities_;
  std::unordered_map<std::string, std::string> kinds_;
  absl::Time now_;
  std::unordered_map<uint64_t, Row> rows_;  // by key
  std::map<ClaimId, Claim> claims_;
  std::unordered_map<std::string, uint64_t> one_offs_;        // event id → key of its row
  std::unordered_set<std::string> claimed_;                   // one-off events
  std::unordered_map<std::string, absl::Time> last_claimed_;  // one-off events
  std::unordered_map<std::string, State> states_;             // by uid
  std::unordered_map<std::string, absl::Time> emitted_;       // by run: first emission
  std::map<std::string, std::vector<std::pair<absl::Time, absl::Time>>> summaries_;  // by uid
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckOverdue(const History& history, const Expectations& expected) {
  return OverdueChecker(history, expected).Run();
}

std::vector<Violation> CheckOverdue(const History& history) {
  return CheckOverdue(history, Expect(history));
}

}  // namespace escapement::simulation
