#include "tests/e2e/chaos/judge_chaos.h"

#include <utility>

#include "tests/e2e/chaos/check_delivered.h"
#include "tests/simulation/checkers/check_clock.h"
#include "tests/simulation/checkers/check_doubled.h"
#include "tests/simulation/checkers/check_early.h"
#include "tests/simulation/checkers/check_lost.h"
#include "tests/simulation/checkers/check_overdue.h"
#include "tests/simulation/checkers/check_overlap.h"
#include "tests/simulation/checkers/check_requests.h"
#include "tests/simulation/checkers/check_times.h"
#include "tests/simulation/checkers/commits/check_checkpoint.h"
#include "tests/simulation/checkers/commits/check_claimed.h"
#include "tests/simulation/checkers/commits/check_final.h"
#include "tests/simulation/checkers/commits/check_paused.h"
#include "tests/simulation/checkers/commits/check_stale_epoch.h"
#include "tests/simulation/checkers/tokens/check_cap.h"
#include "tests/simulation/checkers/tokens/check_sink.h"
#include "tests/simulation/checkers/tokens/check_token_end.h"

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

}  // namespace escapement::chaos
