#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/simulation/actors/message_parts.h"
#include "tests/simulation/checkers/checkers.h"

namespace escapement::simulation {
namespace {

// How far machines' clocks may differ in these checks. A process that stood still for 15 s takes
// the store's time to be up to 11.25 ms earlier than it is, until the store's next answer.
constexpr absl::Duration kClockError = absl::Milliseconds(12);
constexpr absl::Duration kLeaseTtl = absl::Seconds(5);
constexpr char kRefused[] = "400";
constexpr char kPastNext[] = "not tried again past the next occurrence";
constexpr char kQuarantined[] = "quarantined after 3 claims without a result";
constexpr size_t kClaimsOfPoison = 3;

class AttemptsChecker {
 public:
  explicit AttemptsChecker(const History& history) : history_(history) {
    for (const Commit& commit : history.commits) {
      for (const LeaseWrite& write : commit.leases) NoteOwner(commit, write);
    }
    for (const Receipt& receipt : history.receipts) {
      events_[NameOf(receipt)].push_back(&receipt);
      if (receipt.throttled) throttled_.insert(receipt.uid);
    }
    for (auto& [name, receipts] : events_) {
      std::stable_sort(receipts.begin(), receipts.end(),
                       [](const Receipt* a, const Receipt* b) { return a->sent < b->sent; });
    }
  }

  std::vector<Violation> Run() {
    for (const DoneRow& row : history_.done) CheckOutcome(row);
    if (history_.poison.has_value()) CheckPoison(*history_.poison);
    for (const auto& [name, receipts] : events_) {
      for (size_t i = 1; i < receipts.size(); ++i) CheckPair(*receipts[i - 1], *receipts[i]);
    }
    return std::move(violations_);
  }

 private:
  using Name = std::pair<std::string, uint64_t>;  // the event's run, and its index
  struct Owner {
    absl::Time since;
    std::string lease;
    std::string owner;
  };

  static Name NameOf(const Receipt& receipt) {
    if (receipt.uid.empty()) return {receipt.event_id, 0};
    return {absl::StrCat(receipt.uid, " ", receipt.occurrence), receipt.index};
  }

  template <typename... Parts>
  void Report(const Name& name, const Parts&... parts) {
    violations_.push_back(
        {"attempts", absl::StrCat("event ", name.first, "[", name.second, "] ", parts...)});
  }

  void NoteOwner(const Commit& commit, const LeaseWrite& write) {
    uint64_t& epoch = epochs_[write.lease];
    if (write.epoch > epoch && absl::StartsWith(write.lease, "queue_shard/"))
      owners_.push_back({commit.time, write.lease, write.owner});
    epoch = std::max(epoch, write.epoch);
  }

  void CheckOutcome(const DoneRow& row) {
    if (row.outcome != Outcome::kSucceeded && row.outcome != Outcome::kFailed) return;
    for (uint64_t i = row.first; i < row.first + row.count; ++i) {
      const Name name = row.uid.empty() ? Name{row.event_id, 0}
                                        : Name{absl::StrCat(row.uid, " ", row.occurrence), i};
      const auto event = events_.find(name);
      const std::vector<const Receipt*> none;
      const auto& receipts = event == events_.end() ? none : event->second;
      const auto told = [&](SendResult result) {
        return std::any_of(receipts.begin(), receipts.end(),
                           [&](const Receipt* receipt) { return receipt->result == result; });
      };
      // The consumer of events with tokens reports the result itself: see check_token_end.
      if (std::any_of(receipts.begin(), receipts.end(),
                      [](const Receipt* receipt) { return receipt->throttled; }))
        continue;
      if (row.outcome == Outcome::kSucceeded) {
        if (!told(SendResult::kAccepted) && !Throttled(row.uid))
          Report(name, "ended as succeeded, and no attempt of it was accepted");
        continue;
      }
      if (absl::StrContains(row.reason, kPastNext) || Throttled(row.uid)) continue;
      if (row.reason == kQuarantined) {
        if (!MayBeQuarantined(row))
          Report(name, "was quarantined after fewer than 3 lost handlers");
      } else if (row.reason == kRefused) {
        if (!told(SendResult::kRejected)) Report(name, "ended as refused, and was not");
      } else if (row.attempts < kMaxAttempts && !history_.clock_leaps) {
        // If the store's clock leaps, the time for further attempts may be over.
        Report(name, "ended as failed (", row.reason, ") after ", row.attempts, " attempts of ",
               kMaxAttempts);
      }
    }
  }

  void CheckPoison(const PoisonSeen& poison) {
    const Name name = poison.uid.empty()
                          ? Name{poison.event_id, 0}
                          : Name{absl::StrCat(poison.uid, " ", poison.occurrence), poison.index};
    if (poison.sent.size() > kClaimsOfPoison)
      Report(name, "has killed ", poison.sent.size(), " handlers");
  }

  // Each lost handler is followed by another owner of the shard.
  bool MayBeQuarantined(const DoneRow& row) const {
    const std::string lease = absl::StrCat("queue_shard/", row.shard);
    return std::count_if(owners_.begin(), owners_.end(), [&](const Owner& one) {
             return one.lease == lease;
           }) > static_cast<ptrdiff_t>(kClaimsOfPoison);
  }

  // Whether any event of the schedule was throttled.
  bool Throttled(const std::string& uid) const { return throttled_.count(uid) > 0; }

  void CheckPair(const Receipt& earlier, const Receipt& later) {
    if (earlier.throttled || later.throttled) return;
    if (earlier.result_time <= later.sent) {
      // The sender no longer expected a late answer. The next owner of a shard does not know the
      // answers to the former one.
      if (earlier.result == SendResult::kFailed && !history_.clock_leaps &&
          later.sent + kClockError < earlier.result_time + earlier.asked &&
          earlier.sender == later.sender && !Acquires("", earlier.sent, later.sent))
        Report(NameOf(later), "was sent again at ", Text(later.sent),
               ", and its consumer asked at ", Text(earlier.result_time), " for ",
               absl::FormatDuration(earlier.asked));
      return;
    }
    if (earlier.sender == later.sender ||
        later.sent + kClockError >= earlier.sent + earlier.timeout ||
        ProvenDead(earlier.sender, later.sent))
      return;
    // If the earlier attempt's sender had lost the shard before it sent, the next owner need not
    // wait for it. The wait is in the store's time; it begins at the end of the lease, which the
    // sender renewed at most kLeaseTtl before. If the store's time leapt in between, the wait is
    // over.
    if (Acquires(later.sender, earlier.sent, later.sent) &&
        !Leapt(earlier.sent - kLeaseTtl, later.sent))
      Report(NameOf(later), "was sent at ", Text(later.sent), " by ", later.sender,
             ", though its attempt by ", earlier.sender, " at ", Text(earlier.sent),
             " may still be under way");
  }

  // True if `owner` acquires any queue shard in (from, to]; an empty `owner` stands for anyone.
  bool Acquires(const std::string& owner, absl::Time from, absl::Time to) const {
    return std::any_of(owners_.begin(), owners_.end(), [&](const Owner& one) {
      return (owner.empty() || one.owner == owner) && one.since > from && one.since <= to;
    });
  }

  // True if the instance had died, and then the next one of its host acquired a queue shard.
  bool ProvenDead(const std::string& instance, absl::Time by) const {
    const auto died = history_.died.find(instance);
    if (died == history_.died.end()) return false;
    const std::string host = instance.substr(0, instance.find('#') + 1);
    return std::any_of(owners_.begin(), owners_.end(), [&](const Owner& one) {
      return absl::StartsWith(one.owner, host) && one.since >= died->second && one.since <= by;
    });
  }

  // True if the store's time gained on true time between commits of that span.
  bool Leapt(absl::Time from, absl::Time to) const {
    if (!history_.clock_leaps) return false;
    std::optional<absl::Duration> ahead;
    for (const Commit& commit : history_.commits) {
      if (commit.time > to) break;
      const absl::Duration now_ahead = commit.store_time - commit.time;
      if (commit.time > from && ahead.has_value() && now_ahead > *ahead + absl::Seconds(1))
        return true;
      ahead = now_ahead;
    }
    return false;
  }

  static std::string Text(absl::Time time) { return absl::FormatTime(time, absl::UTCTimeZone()); }

  const History& history_;
  std::map<Name, std::vector<const Receipt*>> events_;
  std::map<std::string, uint64_t> epochs_;
  std::vector<Owner> owners_;  // owners of queue shards
  std::set<std::string> throttled_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckAttempts(const History& history) {
  return AttemptsChecker(history).Run();
}

}  // namespace escapement::simulation
