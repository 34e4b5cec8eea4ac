#include "tests/e2e/chaos/judge_chaos.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
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
#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/checkers/commits/commit_checks.h"
#include "tests/simulation/checkers/tokens/token_checks.h"

namespace escapement::chaos {

namespace {

using simulation::History;
using simulation::Receipt;
using simulation::SendResult;

// More resends than a transport makes of one attempt.
constexpr uint32_t kResendsMax = 16;

// A transport sends an attempt again, under the same number, if its kept connection turns out to be
// broken (http_transport.h). This gives such a resend a number of its own, if the earlier one's
// connection is known to have broken.
struct Resends {
  History history;
  uint64_t count = 0;
};

Resends NumberResends(const History& history) {
  Resends told{history, 0};
  struct Last {
    uint32_t attempt = 0;
    uint32_t resends = 0;
    SendResult result = SendResult::kNone;
  };
  std::map<std::string, Last> last;  // by event
  for (Receipt& receipt : told.history.receipts) {
    Last& before = last[receipt.event_id];
    const bool again = before.attempt == receipt.attempt && before.result == SendResult::kUnknown &&
                       before.resends + 1 < kResendsMax;
    before = {receipt.attempt, again ? before.resends + 1 : 0, receipt.result};
    told.count += again ? 1 : 0;
    receipt.attempt = receipt.attempt * kResendsMax + before.resends;
  }
  return told;
}

}  // namespace

std::vector<simulation::Violation> JudgeChaos(const History& history) {
  std::vector<simulation::Violation> violations;
  const auto add = [&](std::vector<simulation::Violation> found) {
    for (simulation::Violation& violation : found) violations.push_back(std::move(violation));
  };
  for (const auto check :
       {simulation::CheckLost, simulation::CheckEarly, simulation::CheckStaleEpoch,
        simulation::CheckCap, simulation::CheckTokenEnd, simulation::CheckSink,
        simulation::CheckClock, simulation::CheckTimes, simulation::CheckOverlap,
        simulation::CheckCheckpoint, simulation::CheckClaimed, simulation::CheckFinal,
        simulation::CheckOverdue, simulation::CheckPaused, simulation::CheckRequests,
        CheckDelivered}) {
    add(check(history));
  }
  add(simulation::CheckDoubled(NumberResends(history).history));
  return violations;
}

std::map<std::string, uint64_t> CountRepeats(const History& history) {
  using simulation::RepeatCause;
  std::map<std::string, uint64_t> counts;
  const Resends resends = NumberResends(history);
  for (const simulation::Repeat& repeat : simulation::ExplainRepeats(resends.history)) {
    switch (repeat.cause) {
      case RepeatCause::kFailed:
        ++counts["after a failure"];
        break;
      case RepeatCause::kNoAnswer:
        ++counts["after no answer, or one that may not have been read"];
        break;
      case RepeatCause::kWorkFailed:
        ++counts["the work had failed"];
        break;
      case RepeatCause::kHoldExpired:
        ++counts["the hold time ran out"];
        break;
      default:  // only the sender could tell the windows apart
        ++counts["its shard was taken over (W1, W2, W3)"];
    }
  }
  if (resends.count > 0)
    counts["of those without an answer, sent again as the same attempt"] = resends.count;
  return counts;
}

std::vector<simulation::Violation> CheckDelivered(const simulation::History& history) {
  using simulation::SendResult;
  // uid, occurrence or one-off event, index
  std::set<std::tuple<std::string, std::string, uint64_t>> arrived;
  for (const simulation::Receipt& receipt : history.receipts) {
    if (receipt.result != SendResult::kAccepted && receipt.result != SendResult::kUnknown) continue;
    arrived.insert(
        {receipt.uid, receipt.uid.empty() ? receipt.event_id : receipt.occurrence, receipt.index});
  }
  std::vector<simulation::Violation> violations;
  for (const simulation::DoneRow& row : history.done) {
    if (row.outcome != simulation::Outcome::kSucceeded) continue;
    const std::string& name = row.uid.empty() ? row.event_id : row.occurrence;
    for (uint64_t index = row.first; index < row.first + row.count; ++index) {
      if (arrived.count({row.uid, name, index}) > 0) continue;
      violations.push_back(
          {"delivered", absl::StrCat("event ", row.uid, " ", name, "[", index,
                                     "] has succeeded, and no accepted attempt arrived")});
    }
  }
  return violations;
}

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
