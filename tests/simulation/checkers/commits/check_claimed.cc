#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/commits/commit_checks.h"

namespace escapement::simulation {
namespace {

// Far more events than any run has. Stops a broken record from taking all memory.
constexpr uint64_t kCountMax = 1'000'000;

class ClaimedChecker {
 public:
  explicit ClaimedChecker(const History& history) : history_(history) {}

  std::vector<Violation> Run() {
    NoteClaims();
    std::vector<const Receipt*> by_sending;
    for (const Receipt& receipt : history_.receipts) by_sending.push_back(&receipt);
    std::stable_sort(by_sending.begin(), by_sending.end(),
                     [](const Receipt* a, const Receipt* b) { return a->sent < b->sent; });
    for (const Receipt* receipt : by_sending) CheckSending(*receipt);
    return std::move(violations_);
  }

 private:
  struct Claim {
    absl::Time time;
    uint16_t shard = 0;
    // Sender, and how often the shard had been acquired.
    std::vector<std::pair<std::string, size_t>> senders;
  };

  // The name of one attempt of an event.
  static std::string NameOf(const std::string& uid, const std::string& occurrence, uint64_t index,
                            uint32_t attempt) {
    return absl::StrCat(uid, " ", occurrence, " ", index, " ", attempt);
  }

  void NoteClaims() {
    for (const Commit& commit : history_.commits) {
      for (const QueueWrite& write : commit.queue) {
        const auto* put = std::get_if<ClaimPut>(&write);
        if (put == nullptr) continue;
        for (const ClaimedEvents& events : put->events) Note(commit, put->claim.shard, events);
      }
      for (const LeaseWrite& write : commit.leases) {
        uint64_t& epoch = epochs_[write.lease];
        if (write.epoch > epoch) acquired_[write.lease].push_back(commit.time);
        epoch = std::max(epoch, write.epoch);
      }
    }
  }

  void Note(const Commit& commit, uint16_t shard, const ClaimedEvents& events) {
    const uint64_t end = events.events.first + std::min(events.events.count, kCountMax);
    for (uint64_t i = events.events.first; i < end; ++i)
      claims_[NameOf(events.uid, events.occurrence, i, events.attempts + 1)].push_back(
          {commit.time, shard, {}});
  }

  // How often the shard had been acquired by then.
  size_t Acquired(uint16_t shard, absl::Time at) const {
    const auto times = acquired_.find(absl::StrCat("queue_shard/", shard));
    if (times == acquired_.end()) return 0;
    return static_cast<size_t>(std::upper_bound(times->second.begin(), times->second.end(), at) -
                               times->second.begin());
  }

  void CheckSending(const Receipt& receipt) {
    const std::string& occurrence = receipt.uid.empty() ? receipt.event_id : receipt.occurrence;
    const auto of_attempt =
        claims_.find(NameOf(receipt.uid, occurrence, receipt.index, receipt.attempt));
    bool claimed = false;
    if (of_attempt != claims_.end()) {
      for (Claim& claim : of_attempt->second) {
        if (claim.time > receipt.sent) break;
        claimed = true;
        const auto sender = std::make_pair(receipt.sender, Acquired(claim.shard, receipt.sent));
        if (std::find(claim.senders.begin(), claim.senders.end(), sender) != claim.senders.end())
          continue;
        claim.senders.push_back(sender);
        return;
      }
    }
    violations_.push_back(
        {"claimed",
         absl::StrCat("event ", receipt.event_id, " ", receipt.occurrence, "[", receipt.index,
                      "] attempt ", receipt.attempt, " was sent at ",
                      absl::FormatTime(receipt.sent, absl::UTCTimeZone()), " from ", receipt.sender,
                      claimed ? ", which had sent it for the same claim"
                              : ", and no commit had claimed it by then")});
  }

  const History& history_;
  std::unordered_map<std::string, uint64_t> epochs_;                   // by lease
  std::unordered_map<std::string, std::vector<absl::Time>> acquired_;  // by lease
  std::unordered_map<std::string, std::vector<Claim>> claims_;         // by attempt, in order
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckClaimed(const History& history) {
  return ClaimedChecker(history).Run();
}

}  // namespace escapement::simulation
