#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/checkers.h"

namespace escapement::simulation {
namespace {

// A claim is made at most this long before its events are due.
constexpr absl::Duration kClaimAhead = absl::Seconds(1);

class DoubledChecker {
 public:
  explicit DoubledChecker(const History& history) : history_(history) {
    for (const DoneRow& row : history.done) {
      rows_[{row.uid, row.uid.empty() ? row.event_id : row.occurrence}].push_back(&row);
    }
    NoteWorkFailures();
    std::map<std::string, uint64_t> epochs;
    for (const Commit& commit : history.commits) {
      for (const LeaseWrite& write : commit.leases) {
        uint64_t& epoch = epochs[write.lease];
        if (write.epoch > epoch) acquired_[write.lease].push_back({commit.store_time, write.owner});
        epoch = std::max(epoch, write.epoch);
      }
    }
  }

  void Run() {
    std::map<std::string, std::vector<const Receipt*>> by_event;
    for (const Receipt& receipt : history_.receipts) {
      by_event[receipt.event_id].push_back(&receipt);
      CheckIdentity(receipt);
    }
    for (auto& [event_id, receipts] : by_event) {
      // An attempt may overtake an earlier one in the network.
      std::stable_sort(receipts.begin(), receipts.end(),
                       [](const Receipt* a, const Receipt* b) { return a->sent < b->sent; });
      for (size_t i = 1; i < receipts.size(); ++i) {
        CheckPair(*receipts[i - 1], *receipts[i],
                  i >= 2 ? receipts[i - 2]->sent : absl::InfinitePast());
      }
    }
  }

  std::vector<Violation> TakeViolations() { return std::move(violations_); }

  std::vector<Repeat> TakeRepeats() {
    NoteClaims();
    std::vector<Repeat> repeats;
    for (const Pair& pair : pairs_) {
      const RepeatCause cause = pair.cause == RepeatCause::kEndNotCommitted
                                    ? WindowOf(*pair.earlier, *pair.later)
                                    : pair.cause;
      repeats.push_back({static_cast<size_t>(pair.later - history_.receipts.data()), cause});
    }
    return repeats;
  }

 private:
  template <typename... Parts>
  void Report(const Receipt& receipt, const Parts&... parts) {
    violations_.push_back(
        {"doubled", absl::StrCat("event ", receipt.event_id, " ", receipt.occurrence, "[",
                                 receipt.index, "] attempt ", receipt.attempt, " at ",
                                 absl::FormatTime(receipt.time, absl::UTCTimeZone()), " from ",
                                 receipt.sender, ": ", parts...)});
  }

  void CheckIdentity(const Receipt& receipt) {
    auto [place, fresh_id] = place_of_.try_emplace(receipt.event_id, PlaceOf(receipt));
    if (!fresh_id && place->second != PlaceOf(receipt)) Report(receipt, "one id, two events");
    auto [id, fresh_place] = id_of_.try_emplace(PlaceOf(receipt), receipt.event_id);
    if (!fresh_place && id->second != receipt.event_id) Report(receipt, "one event, two ids");
    auto [body, fresh_body] =
        body_of_.try_emplace({receipt.event_id, receipt.version}, receipt.body_hash);
    if (!fresh_body && body->second != receipt.body_hash) Report(receipt, "one id, two bodies");
  }

  using Place = std::tuple<std::string, std::string, uint64_t>;
  static Place PlaceOf(const Receipt& receipt) {
    return {receipt.uid, receipt.uid.empty() ? receipt.event_id : receipt.occurrence,
            receipt.index};
  }

  void CheckPair(const Receipt& earlier, const Receipt& later, absl::Time before_earlier) {
    if (Retried(earlier, later)) {
      return Explain(
          earlier, later,
          earlier.result == SendResult::kFailed ? RepeatCause::kFailed : RepeatCause::kNoAnswer);
    }
    if (earlier.throttled && earlier.attempt < later.attempt) {
      if (In(work_failures_, earlier, later))
        return Explain(earlier, later, RepeatCause::kWorkFailed);
      if (In(hold_expiries_, earlier, later))
        return Explain(earlier, later, RepeatCause::kHoldExpired);
    }
    if (!history_.fault_free && TakenOver(earlier, later, before_earlier))
      return Explain(earlier, later, RepeatCause::kEndNotCommitted);
    Report(later, "received again, though the one before, at ",
           absl::FormatTime(earlier.time, absl::UTCTimeZone()), " from ", earlier.sender, ", was ",
           Name(earlier.result), " and its shard had no new owner since");
  }

  struct Pair {
    const Receipt* earlier = nullptr;
    const Receipt* later = nullptr;
    RepeatCause cause;
  };
  void Explain(const Receipt& earlier, const Receipt& later, RepeatCause cause) {
    pairs_.push_back({&earlier, &later, cause});
  }

  static bool Retried(const Receipt& earlier, const Receipt& later) {
    return (earlier.result == SendResult::kFailed || earlier.result == SendResult::kUnknown) &&
           earlier.result_time <= later.sent && earlier.attempt < later.attempt;
  }

  bool TakenOver(const Receipt& earlier, const Receipt& later, absl::Time before_earlier) const {
    // A claim of events under a policy may be in any shard, also if they show no token.
    const auto& [uid, occurrence, index] = PlaceOf(earlier);
    const std::optional<uint16_t> shard =
        granted_.contains({uid, occurrence}) ? std::optional<uint16_t>() : ShardOf(earlier);
    const absl::Time claimed = std::max(before_earlier, earlier.launch - kClaimAhead);
    for (const auto& [lease, acquisitions] : acquired_) {
      if (shard.has_value() ? !IsQueueShard(lease, *shard) : lease.find("queue_shard") != 0)
        continue;
      const auto first = std::lower_bound(
          acquisitions.begin(), acquisitions.end(), claimed,
          [](const Acquisition& acquisition, absl::Time at) { return acquisition.time < at; });
      if (first != acquisitions.end() && first->time <= later.sent) return true;
    }
    return false;
  }

  // The window of a repeat that a takeover explains.
  RepeatCause WindowOf(const Receipt& earlier, const Receipt& later) const {
    const Claim* earlier_claim = ClaimOf(earlier);
    const Claim* later_claim = ClaimOf(later);
    for (const auto& [receipt, claim] :
         {std::make_pair(&earlier, earlier_claim), std::make_pair(&later, later_claim)}) {
      if (claim != nullptr && !Owned(claim->id.shard, *receipt)) return RepeatCause::kLeaseLost;
    }
    if (earlier_claim == nullptr) return RepeatCause::kEndNotCommitted;
    for (const UnknownEnd& end : history_.unknown_ends) {
      if (end.claim == earlier_claim->id && end.process == earlier.sender &&
          end.time >= earlier.sent && end.time <= later.sent)
        return RepeatCause::kEndUnknown;
    }
    return RepeatCause::kEndNotCommitted;
  }

  // True if the sender still owned the shard when the attempt arrived.
  bool Owned(uint16_t shard, const Receipt& receipt) const {
    const auto of_lease = acquired_.find(absl::StrCat("queue_shard/", shard));
    if (of_lease == acquired_.end()) return true;
    auto after = std::upper_bound(
        of_lease->second.begin(), of_lease->second.end(), receipt.time,
        [](absl::Time at, const Acquisition& acquisition) { return at < acquisition.time; });
    return after == of_lease->second.begin() || (--after)->owner == receipt.sender;
  }

  struct Claim {
    absl::Time time;
    ClaimId id;
  };

  static std::string NameOf(const std::string& uid, const std::string& occurrence, uint64_t index) {
    return absl::StrCat(uid, " ", occurrence, " ", index);
  }

  // Notes claims, only for events that were received more than once.
  void NoteClaims() {
    for (const Pair& pair : pairs_) claims_.try_emplace(NameOf(*pair.later));
    for (const Commit& commit : history_.commits) {
      for (const QueueWrite& write : commit.queue) {
        const auto* put = std::get_if<ClaimPut>(&write);
        if (put == nullptr) continue;
        for (const ClaimedEvents& events : put->events) {
          for (uint64_t i = 0; i < events.events.count; ++i) {
            const auto claims =
                claims_.find(NameOf(events.uid, events.occurrence, events.events.first + i));
            if (claims != claims_.end()) claims->second.push_back({commit.time, put->claim});
          }
        }
      }
    }
  }

  static std::string NameOf(const Receipt& receipt) {
    return NameOf(receipt.uid, receipt.uid.empty() ? receipt.event_id : receipt.occurrence,
                  receipt.index);
  }

  // The last claim before the attempt was sent; nullptr if there is none.
  const Claim* ClaimOf(const Receipt& receipt) const {
    const auto claims = claims_.find(NameOf(receipt));
    if (claims == claims_.end()) return nullptr;
    const Claim* last = nullptr;
    for (const Claim& claim : claims->second) {
      if (claim.time <= receipt.sent) last = &claim;
    }
    return last;
  }

  using Times = std::map<std::tuple<std::string, std::string, uint64_t>, std::vector<absl::Time>>;

  // True if one of the event's times lies between the two receipts.
  static bool In(const Times& of_events, const Receipt& earlier, const Receipt& later) {
    const auto times = of_events.find(PlaceOf(earlier));
    return times != of_events.end() &&
           std::any_of(times->second.begin(), times->second.end(),
                       [&](absl::Time time) { return time >= earlier.time && time <= later.sent; });
  }

  void NoteWorkFailures() {
    for (const Work& work : history_.works) {
      if (work.word == WorkWord::kFailed)
        work_failures_[PlaceOf(history_.receipts[work.receipt])].push_back(work.ended);
    }
    for (const Commit& commit : history_.commits) {
      for (const ThrottleWrite& write : commit.throttle) {
        if (const auto* grant = std::get_if<GrantWrite>(&write); grant != nullptr)
          granted_.insert({grant->uid, grant->occurrence});
        const auto* row = std::get_if<RowWrite>(&write);
        if (row == nullptr || row->deleted || !absl::StrContains(row->last_error, "hold_expired"))
          continue;
        for (uint64_t i = 0; i < row->events.count; ++i)
          hold_expiries_[{row->uid, row->occurrence, row->events.first + i}].push_back(commit.time);
      }
    }
  }

  static bool IsQueueShard(const std::string& lease, uint16_t shard) {
    return lease == absl::StrCat("queue_shard/", shard);
  }

  std::optional<uint16_t> ShardOf(const Receipt& receipt) const {
    auto rows =
        rows_.find({receipt.uid, receipt.uid.empty() ? receipt.event_id : receipt.occurrence});
    if (rows == rows_.end()) return std::nullopt;
    for (const DoneRow* row : rows->second) {
      if (receipt.index >= row->first && receipt.index < row->first + row->count) return row->shard;
    }
    return std::nullopt;
  }

  static absl::string_view Name(SendResult result) {
    switch (result) {
      case SendResult::kNone:
        return "not answered";
      case SendResult::kAccepted:
        return "accepted";
      case SendResult::kFailed:
        return "failed";
      case SendResult::kRejected:
        return "rejected";
      case SendResult::kUnknown:
        return "unknown";
    }
    return "";
  }

  const History& history_;
  std::map<std::pair<std::string, std::string>, std::vector<const DoneRow*>> rows_;
  struct Acquisition {
    absl::Time time;
    std::string owner;
  };
  std::map<std::string, std::vector<Acquisition>> acquired_;  // by lease
  Times work_failures_;
  std::set<std::pair<std::string, std::string>>
      granted_;  // runs, and one-off events, under policies
  Times hold_expiries_;
  std::vector<Pair> pairs_;
  std::unordered_map<std::string, std::vector<Claim>> claims_;
  std::map<std::string, Place> place_of_;
  std::map<Place, std::string> id_of_;
  std::map<std::pair<std::string, uint64_t>, uint64_t> body_of_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckDoubled(const History& history) {
  DoubledChecker checker(history);
  checker.Run();
  return checker.TakeViolations();
}

std::vector<Repeat> ExplainRepeats(const History& history) {
  DoubledChecker checker(history);
  checker.Run();
  return checker.TakeRepeats();
}

}  // namespace escapement::simulation
