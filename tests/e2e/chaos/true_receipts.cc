#include "tests/e2e/chaos/true_receipts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/uid.h"
#include "common/storage/event_id.h"
#include "tests/simulation/actors/message_parts.h"

namespace escapement::chaos {
namespace {

using simulation::History;
using simulation::Receipt;
using simulation::SendResult;
using simulation::Violation;

constexpr absl::string_view kTenant = "default";
constexpr absl::string_view kSchedules = "/tenants/default/schedules/";

// The claims of each event in commit order, and whether each was with a token.
class Claims {
 public:
  explicit Claims(const History& history) {
    for (const simulation::Commit& commit : history.commits) {
      for (const simulation::QueueWrite& write : commit.queue) {
        const auto* put = std::get_if<simulation::ClaimPut>(&write);
        if (put == nullptr) continue;
        for (const simulation::ClaimedEvents& events : put->events) {
          for (uint64_t i = events.events.first; i < events.events.first + events.events.count; ++i)
            claims_[{events.uid, events.occurrence, i}].push_back(
                {commit.time, events.attempts + 1, put->granted});
        }
      }
    }
  }

  // Whether the last claim for this attempt before its arrival was with a token. An update of the
  // schedule may have taken the event out of its policy since the attempt before.
  bool Granted(const Receipt& receipt) const {
    const auto claims = claims_.find({receipt.uid, receipt.occurrence, receipt.index});
    bool granted = false;
    if (claims == claims_.end()) return granted;
    for (const Claim& claim : claims->second) {
      if (claim.time <= receipt.time && claim.attempt == receipt.attempt) granted = claim.granted;
    }
    return granted;
  }

 private:
  struct Claim {
    absl::Time time;
    uint32_t attempt = 0;
    bool granted = false;
  };
  std::map<std::tuple<std::string, std::string, uint64_t>, std::vector<Claim>> claims_;
};

class Teller {
 public:
  Teller(const std::vector<Attempt>& attempts, const std::vector<Fate>& fates, History* history)
      : attempts_(attempts), fates_(fates), history_(*history), claims_(*history) {
    for (const simulation::ScheduleLife& life : history->schedules)
      lives_[life.id].push_back(life.uid);
  }

  std::vector<Violation> Run() {
    std::vector<size_t> numbers;  // attempt of each receipt
    for (Receipt& receipt : history_.receipts) {
      size_t number = 0;
      absl::string_view sender = receipt.sender;
      if (!absl::ConsumePrefix(&sender, "attempt ") || !absl::SimpleAtoi(sender, &number) ||
          number >= attempts_.size() || number >= fates_.size()) {
        Report(receipt, "came through no socket");
        number = 0;
      } else {
        Tell(attempts_[number], fates_[number], receipt);
      }
      numbers.push_back(number);
    }
    if (history_.receipts.size() != attempts_.size())
      violations_.push_back({"receipts", absl::StrCat(attempts_.size(), " attempts arrived, and ",
                                                      history_.receipts.size(), " are told of")});
    Sort(numbers);
    return std::move(violations_);
  }

 private:
  void Report(const Receipt& receipt, const std::string& why) {
    violations_.push_back(
        {"receipts", absl::StrCat("event ", receipt.event_id, " ", receipt.occurrence, "[",
                                  receipt.index, "], ", receipt.sender, ": ", why)});
  }

  void Tell(const Attempt& attempt, const Fate& fate, Receipt& receipt) {
    receipt.time = attempt.time;
    receipt.sent = attempt.time;
    receipt.timeout = simulation::kDeliveryTimeout;
    TellResult(fate, receipt);
    if (attempt.occurrence.empty()) {
      receipt.throttled = false;
      return;
    }
    receipt.uid = UidOf(attempt);
    if (receipt.uid.empty()) {
      receipt.uid = attempt.source;
      Report(receipt, absl::StrCat("its id is that of no event of ", attempt.source));
    }
    receipt.throttled = !attempt.token.empty() || claims_.Granted(receipt);
    TellVersion(attempt, receipt);
  }

  static void TellResult(const Fate& fate, Receipt& receipt) {
    if (fate.broken != absl::InfiniteFuture() && !fate.read) {
      receipt.result = SendResult::kUnknown;
      receipt.result_time = receipt.time;
    } else if (fate.answered != absl::InfiniteFuture()) {
      receipt.result_time = fate.answered;
    } else {
      receipt.result = SendResult::kNone;
      receipt.result_time = absl::InfiniteFuture();
    }
  }

  // An event's id is a hash over its schedule's uid, so the uid that gives this id is the right
  // one.
  std::string UidOf(const Attempt& attempt) const {
    absl::string_view id = attempt.source;
    if (!absl::ConsumePrefix(&id, kSchedules)) return "";
    const auto lives = lives_.find(std::string(id));
    if (lives == lives_.end()) return "";
    for (const std::string& uid : lives->second) {
      const RunIdentity identity(kTenant, Uid::FromHex(uid), attempt.occurrence);
      if (identity.EventId(attempt.index) == attempt.event_id) return uid;
    }
    return "";
  }

  // Users number their definitions and write the number into the payload.
  void TellVersion(const Attempt& attempt, Receipt& receipt) {
    absl::string_view text = attempt.body;
    const bool whole = absl::ConsumePrefix(&text, "definition ") &&
                       absl::ConsumeSuffix(&text, absl::StrCat(" of ", IdOf(attempt.source))) &&
                       absl::SimpleAtoi(text, &receipt.version);
    if (!whole) Report(receipt, absl::StrCat("its body was never asked for: ", attempt.body));
  }

  static absl::string_view IdOf(absl::string_view source) {
    absl::ConsumePrefix(&source, kSchedules);
    return source;
  }

  // Sorts the receipts by arrival, and makes works point to their new places.
  void Sort(const std::vector<size_t>& numbers) {
    std::vector<size_t> order(numbers.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return numbers[a] < numbers[b]; });
    std::vector<Receipt> receipts;
    std::vector<size_t> place(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      place[order[i]] = i;
      receipts.push_back(std::move(history_.receipts[order[i]]));
    }
    history_.receipts = std::move(receipts);
    std::vector<simulation::Work> works;
    for (simulation::Work work : history_.works) {
      work.receipt = place[work.receipt];
      const Receipt& receipt = history_.receipts[work.receipt];
      work.begun = receipt.time;
      if (receipt.throttled) works.push_back(work);
    }
    std::stable_sort(works.begin(), works.end(),
                     [](const auto& a, const auto& b) { return a.begun < b.begun; });
    history_.works = std::move(works);
  }

  const std::vector<Attempt>& attempts_;
  const std::vector<Fate>& fates_;
  History& history_;
  const Claims claims_;
  std::map<std::string, std::vector<std::string>> lives_;  // schedule id → uids
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> TellTrueReceipts(const std::vector<Attempt>& attempts,
                                        const std::vector<Fate>& fates, History* history) {
  return Teller(attempts, fates, history).Run();
}

}  // namespace escapement::chaos
