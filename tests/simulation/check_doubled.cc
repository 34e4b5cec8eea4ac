#include "tests/simulation/check_doubled.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

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
        if (write.epoch > epoch) acquired_[write.lease].push_back(commit.store_time);
        epoch = std::max(epoch, write.epoch);
      }
    }
  }

  std::vector<Violation> Run() {
    std::map<std::string, std::vector<const Receipt*>> by_event;
    for (const Receipt& receipt : history_.receipts) {
      by_event[receipt.event_id].push_back(&receipt);
      CheckIdentity(receipt);
    }
    for (auto& [event_id, receipts] : by_event) {
      // Attempts may overtake one another on the way.
      std::stable_sort(receipts.begin(), receipts.end(),
                       [](const Receipt* a, const Receipt* b) { return a->sent < b->sent; });
      for (size_t i = 1; i < receipts.size(); ++i) {
        CheckPair(*receipts[i - 1], *receipts[i],
                  i >= 2 ? receipts[i - 2]->sent : absl::InfinitePast());
      }
    }
    return std::move(violations_);
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
    if (Retried(earlier, later)) return;
    if (!history_.fault_free && TakenOver(earlier, later, before_earlier)) return;
    if (earlier.throttled && earlier.attempt < later.attempt && FailedWork(earlier, later)) return;
    Report(later, "received again, though the one before, at ",
           absl::FormatTime(earlier.time, absl::UTCTimeZone()), " from ", earlier.sender, ", was ",
           Name(earlier.result), " and its shard had no new owner since");
  }

  static bool Retried(const Receipt& earlier, const Receipt& later) {
    return (earlier.result == SendResult::kFailed || earlier.result == SendResult::kUnknown) &&
           earlier.result_time <= later.sent && earlier.attempt < later.attempt;
  }

  bool TakenOver(const Receipt& earlier, const Receipt& later, absl::Time before_earlier) const {
    // Events that hold tokens are claimed in any shard.
    const std::optional<uint16_t> shard =
        earlier.throttled ? std::optional<uint16_t>() : ShardOf(earlier);
    const absl::Time claimed = std::max(before_earlier, earlier.launch - kClaimAhead);
    for (const auto& [lease, times] : acquired_) {
      if (shard.has_value() ? !IsQueueShard(lease, *shard) : lease.find("queue_shard") != 0)
        continue;
      for (absl::Time time : times) {
        if (time >= claimed && time <= later.sent) return true;
      }
    }
    return false;
  }

  // The consumer said that the work had failed, or its hold time ran out.
  bool FailedWork(const Receipt& earlier, const Receipt& later) const {
    auto failures = work_failures_.find(PlaceOf(earlier));
    if (failures == work_failures_.end()) return false;
    return std::any_of(failures->second.begin(), failures->second.end(),
                       [&](absl::Time time) { return time >= earlier.time && time <= later.sent; });
  }

  void NoteWorkFailures() {
    for (const Work& work : history_.works) {
      if (work.word == WorkWord::kFailed)
        work_failures_[PlaceOf(history_.receipts[work.receipt])].push_back(work.ended);
    }
    for (const Commit& commit : history_.commits) {
      for (const ThrottleWrite& write : commit.throttle) {
        const auto* row = std::get_if<RowWrite>(&write);
        if (row == nullptr || row->deleted || !absl::StrContains(row->last_error, "hold_expired"))
          continue;
        for (uint64_t i = 0; i < row->events.count; ++i)
          work_failures_[{row->uid, row->occurrence, row->events.first + i}].push_back(commit.time);
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
  std::map<std::string, std::vector<absl::Time>> acquired_;  // by lease
  std::map<Place, std::vector<absl::Time>> work_failures_;
  std::map<std::string, Place> place_of_;
  std::map<Place, std::string> id_of_;
  std::map<std::pair<std::string, uint64_t>, uint64_t> body_of_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckDoubled(const History& history) {
  return DoubledChecker(history).Run();
}

}  // namespace escapement::simulation
