#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/tokens/token_checks.h"
#include "tests/simulation/record/token_replay.h"

namespace escapement::simulation {
namespace {

// After this nobody expects a report from the handler: see docs/design/throttling.md.
constexpr absl::Duration kNoWordAfter = absl::Seconds(30);
// How far a handler's clock may be from true time.
constexpr absl::Duration kClockError = absl::Seconds(5);

class SinkChecker {
 public:
  explicit SinkChecker(const History& history) : history_(history) {}

  std::vector<Violation> Run() {
    // Steps at one instant are ordered: commits, then ends of work, then begins.
    std::vector<std::tuple<absl::Time, int, size_t>> steps;
    for (size_t i = 0; i < history_.commits.size(); ++i)
      steps.emplace_back(history_.commits[i].time, 0, i);
    for (size_t i = 0; i < history_.works.size(); ++i) {
      const Work& work = history_.works[i];
      steps.emplace_back(work.begun, 2, i);
      if (work.ended != absl::InfiniteFuture())
        steps.emplace_back(work.ended, work.ended == work.begun ? 3 : 1, i);
    }
    std::stable_sort(steps.begin(), steps.end());
    for (const auto& [time, kind, index] : steps) {
      if (kind == 0) {
        Commit_(history_.commits[index]);
      } else if (kind == 2) {
        Begin(history_.works[index]);
      } else {
        const auto out = out_.find(PlaceOf(ReceiptOf(history_.works[index])));
        if (out == out_.end()) continue;
        SetPolicy(out->second, "");
        out_.erase(out);
      }
    }
    return std::move(violations_);
  }

 private:
  using Place = std::pair<TokenReplay::Run, uint64_t>;  // run and index of an event
  struct Out {
    std::string policy;  // empty: a commit shows that it no longer holds a token
    std::vector<const Work*> works;
  };

  void SetPolicy(Out& out, const std::string& policy) {
    if (!out.policy.empty()) --out_under_[out.policy];
    out.policy = policy;
    if (!policy.empty()) ++out_under_[policy];
  }

  const Receipt& ReceiptOf(const Work& work) const { return history_.receipts[work.receipt]; }
  static Place PlaceOf(const Receipt& receipt) {
    return {{receipt.uid, receipt.occurrence}, receipt.index};
  }

  template <typename... Parts>
  void Report(const Receipt& receipt, const Parts&... parts) {
    violations_.push_back(
        {"sink", absl::StrCat("event ", receipt.event_id, " ", receipt.uid, " ", receipt.occurrence,
                              "[", receipt.index, "] attempt ", receipt.attempt, " received at ",
                              absl::FormatTime(receipt.time, absl::UTCTimeZone()), " from ",
                              receipt.sender, ": ", parts...)});
  }

  // True if the sender has given the attempt up, or it arrived after its timeout.
  static bool GivenUp(const Receipt& receipt, absl::Time now) {
    const bool told = receipt.result == SendResult::kFailed ||
                      receipt.result == SendResult::kUnknown ||
                      receipt.result == SendResult::kRejected;
    return (told && receipt.result_time <= now) || receipt.time > receipt.sent + receipt.timeout;
  }

  // True if another delivery of the event held the token. Two were under way, because a new handler
  // took over. The worker of the first gave its token back before the second arrived.
  bool HadByAnother(const Receipt& receipt, const Place& place) const {
    const auto had = had_.find(place);
    return had != had_.end() && receipt.sent <= had->second;
  }

  void Begin(const Work& work) {
    const Receipt& receipt = ReceiptOf(work);
    const Place place = PlaceOf(receipt);
    const TokenReplay::Place where = replay_.place(place.first, place.second);
    Out& out = out_[place];
    out.works.push_back(&work);
    if (where.held == 0) {
      SetPolicy(out, "");
      if (!GivenUp(receipt, receipt.time) && !HadByAnother(receipt, place))
        Report(receipt, "it holds no token");
      return;
    }
    SetPolicy(out, where.grant.policy);
    had_[place] = absl::InfiniteFuture();
    const TokenReplay::Grant* grant = replay_.grant(where.grant);
    if (grant != nullptr && receipt.sent > grant->send_before + kClockError) {
      Report(receipt, "sent at ", absl::FormatTime(receipt.sent, absl::UTCTimeZone()),
             ", not to be sent after ", absl::FormatTime(grant->send_before, absl::UTCTimeZone()));
    }
    CheckCount(receipt, out.policy);
  }

  void CheckCount(const Receipt& receipt, const std::string& name) {
    auto policy = replay_.policies().find(name);
    if (policy == replay_.policies().end() || policy->second.max_concurrent == 0) return;
    const uint64_t count = out_under_[name];
    const uint64_t m = std::max(policy->second.max_concurrent, drained_to_[name]);
    if (count > m) Report(receipt, "with it ", count, " are out under policy ", name, " of ", m);
  }

  void Commit_(const Commit& commit) {
    std::map<GrantName, absl::Time> send_before;
    for (const ThrottleWrite& write : commit.throttle) {
      const auto* grant = std::get_if<GrantWrite>(&write);
      const TokenReplay::Grant* was = grant == nullptr ? nullptr : replay_.grant(grant->name);
      if (was != nullptr) send_before[grant->name] = was->send_before;
    }
    const TokenReplay::Changes changes = replay_.Apply(commit);
    for (const ThrottleWrite& write : commit.throttle) {
      const auto* policy = std::get_if<PolicyWrite>(&write);
      if (policy != nullptr) drained_to_[policy->policy] = replay_.held(policy->policy);
    }
    for (auto& [policy, held] : drained_to_) held = std::min(held, replay_.held(policy));
    for (const TokenReplay::HolderChange& removed : changes.removed) {
      for (uint64_t i = removed.events.first; i < removed.events.first + removed.events.count; ++i)
        Removed(commit, {removed.run, i}, send_before[removed.grant]);
    }
  }

  void Removed(const Commit& commit, const Place& place, absl::Time send_before) {
    const auto had = had_.find(place);
    if (had != had_.end()) had->second = std::min(had->second, commit.time);
    auto out = out_.find(place);
    if (out == out_.end() || out->second.policy.empty()) return;
    SetPolicy(out->second, "");
    if (EndedBecause(commit, place, "hold_expired")) return;
    absl::Duration timeout = absl::ZeroDuration();
    for (const Work* work : out->second.works) {
      const Receipt& receipt = ReceiptOf(*work);
      if (GivenUp(receipt, commit.time)) return;
      // The sender was lost before it could report. The next owner sent the attempt again and got
      // no answer.
      if (commit.time > receipt.sent + receipt.timeout && EndedBecause(commit, place, "no answer"))
        return;
      timeout = std::max(timeout, receipt.timeout);
    }
    if (commit.time + kClockError > send_before + timeout + kNoWordAfter) return;
    Report(ReceiptOf(*out->second.works.back()), "commit ", commit.seq, " at ",
           absl::FormatTime(commit.time, absl::UTCTimeZone()),
           " took its token back while it was out");
  }

  // True if an end or row of the commit gives `why` for the event.
  static bool EndedBecause(const Commit& commit, const Place& place, absl::string_view why) {
    const auto has = [&](const std::string& uid, const std::string& occurrence,
                         const Indices& events, const std::string& reason) {
      return place.first == TokenReplay::Run{uid, occurrence} && place.second >= events.first &&
             place.second < events.first + events.count && absl::StrContains(reason, why);
    };
    for (const ThrottleWrite& write : commit.throttle) {
      const auto* end = std::get_if<EndWrite>(&write);
      if (end != nullptr && has(end->uid, end->occurrence, end->events, end->reason)) return true;
      const auto* row = std::get_if<RowWrite>(&write);
      if (row != nullptr && has(row->uid, row->occurrence, row->events, row->last_error))
        return true;
    }
    return false;
  }

  const History& history_;
  TokenReplay replay_;
  std::map<Place, Out> out_;
  // Events that reached a worker while they held a token → until when they held it.
  std::map<Place, absl::Time> had_;
  std::map<std::string, uint64_t> out_under_;  // by policy: how many events of out_ hold its token
  // By policy: how many held when its limit was last changed, less those that gave back since.
  std::map<std::string, uint64_t> drained_to_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckSink(const History& history) { return SinkChecker(history).Run(); }

}  // namespace escapement::simulation
