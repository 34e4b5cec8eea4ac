#include <algorithm>
#include <map>
#include <optional>
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
// A handler sends what it has claimed no later than this after the grant:
// docs/design/throttling.md.
constexpr absl::Duration kClaimedAgainMax = absl::Seconds(10);
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
        SetLimits(out->second, {});
        out_.erase(out);
      }
    }
    return std::move(violations_);
  }

 private:
  using Place = std::pair<TokenReplay::Run, uint64_t>;  // run and index of an event
  struct Out {
    std::vector<LimitOf> limits = {};  // empty: a commit shows that it no longer holds a token
    std::vector<const Work*> works = {};
  };
  // A policy and one of its keys; no key: the policy itself.
  using Key = std::pair<std::string, std::optional<std::string>>;

  void SetLimits(Out& out, std::vector<LimitOf> limits) {
    for (const LimitOf& limit : out.limits) {
      out_under_[{limit.policy, std::nullopt}] -= limit.weight;
      out_under_[{limit.policy, limit.key}] -= limit.weight;
    }
    out.limits = std::move(limits);
    for (const LimitOf& limit : out.limits) {
      out_under_[{limit.policy, std::nullopt}] += limit.weight;
      out_under_[{limit.policy, limit.key}] += limit.weight;
    }
  }

  const Receipt& ReceiptOf(const Work& work) const { return history_.receipts[work.receipt]; }
  static Place PlaceOf(const Receipt& receipt) {
    return {TokenReplay::RunOf(receipt), receipt.index};
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

  bool HasDied(const std::string& sender, absl::Time by) const {
    const auto died = history_.died.find(sender);
    return died != history_.died.end() && died->second <= by;
  }

  // True if another delivery of the event held the token. Two were under way, because a new handler
  // took over. The worker of the first gave its token back before the second arrived. Another
  // sender may have claimed the event before that, and send it later.
  bool HadByAnother(const Receipt& receipt, const Place& place) const {
    const auto had = had_.find(place);
    if (had == had_.end()) return false;
    const bool other = had->second.sender != receipt.sender;
    return receipt.sent <= had->second.until + (other ? kClaimedAgainMax : absl::ZeroDuration());
  }

  void Begin(const Work& work) {
    const Receipt& receipt = ReceiptOf(work);
    const Place place = PlaceOf(receipt);
    const TokenReplay::Place where = replay_.place(place.first, place.second);
    Out& out = out_[place];
    out.works.push_back(&work);
    ++sends_[{place, receipt.attempt}];
    const TokenReplay::Grant* grant = replay_.grant(where.grant);
    // The token of one that sleeps is for its next attempt.
    if (where.held == 0 || (grant != nullptr && grant->asleep)) {
      SetLimits(out, {});
      if (!GivenUp(receipt, receipt.time) && !HadByAnother(receipt, place))
        Report(receipt, "it holds no token");
      return;
    }
    had_[place] = {.until = absl::InfiniteFuture(), .sender = receipt.sender};
    SetLimits(out, grant == nullptr ? std::vector<LimitOf>() : grant->limits);
    if (grant != nullptr && receipt.sent > grant->send_before + kClockError) {
      Report(receipt, "sent at ", absl::FormatTime(receipt.sent, absl::UTCTimeZone()),
             ", not to be sent after ", absl::FormatTime(grant->send_before, absl::UTCTimeZone()));
    }
    for (const LimitOf& limit : out.limits) {
      CheckCount(receipt, {limit.policy, std::nullopt});
      CheckCount(receipt, {limit.policy, limit.key});
    }
  }

  void CheckCount(const Receipt& receipt, const Key& key) {
    auto policy = replay_.policies().find(key.first);
    if (policy == replay_.policies().end()) return;
    const std::optional<uint64_t> limit = MaxConcurrentEver(policy->second, key.second);
    if (!limit.has_value()) return;
    const uint64_t count = out_under_[key];
    const uint64_t m = std::max(*limit, drained_to_[key]);
    if (count > m) {
      Report(receipt, "with it ", count, " are out under policy ", key.first,
             key.second.has_value() ? absl::StrCat(", key \"", *key.second, "\"") : "", " of ", m);
    }
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
      if (policy == nullptr) continue;
      drained_to_[{policy->policy, std::nullopt}] = replay_.held(policy->policy);
      for (const auto& [key, held] : replay_.held_by_key(policy->policy))
        drained_to_[{policy->policy, key}] = held;
    }
    for (auto& [key, held] : drained_to_) {
      held = std::min(held, key.second.has_value() ? replay_.held_of(key.first, *key.second)
                                                   : replay_.held(key.first));
    }
    for (const TokenReplay::HolderChange& removed : changes.removed) {
      for (uint64_t i = removed.events.first; i < removed.events.first + removed.events.count; ++i)
        Removed(commit, {removed.run, i}, send_before[removed.grant]);
    }
  }

  void Removed(const Commit& commit, const Place& place, absl::Time send_before) {
    const auto had = had_.find(place);
    if (had != had_.end()) had->second.until = std::min(had->second.until, commit.time);
    auto out = out_.find(place);
    if (out == out_.end() || out->second.limits.empty()) return;
    SetLimits(out->second, {});
    if (EndedBecause(commit, place, "hold_expired")) return;
    // An attempt comes after the end of the one before, so only the last one counts. Several owners
    // may have sent it.
    uint32_t last = 0;
    for (const Work* work : out->second.works) last = std::max(last, ReceiptOf(*work).attempt);
    absl::Duration timeout = absl::ZeroDuration();
    bool timed_out = false;
    bool may_be_out = false;
    for (const Work* work : out->second.works) {
      const Receipt& receipt = ReceiptOf(*work);
      timeout = std::max(timeout, receipt.timeout);
      if (receipt.attempt < last) continue;
      if (GivenUp(receipt, commit.time)) return;
      const bool over = commit.time > receipt.sent + receipt.timeout;
      timed_out |= over;
      may_be_out |= !over && !HasDied(receipt.sender, commit.time);
    }
    // The sender was lost before it could report. The next owner sent the attempt again and got no
    // answer, or it quarantined the event.
    if (timed_out && !may_be_out &&
        (EndedBecause(commit, place, "no answer") || EndedBecause(commit, place, "quarantined")))
      return;
    if (commit.time + kClockError > send_before + timeout + kNoWordAfter) return;
    // A former owner had sent it, too, and the consumer's word is about that delivery
    // (docs/design/throttling.md, "Takeover"). It may be the same handler, which had lost the
    // shard.
    if (sends_[{place, last}] > 1 && EndedBecause(commit, place, "work failed")) return;
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
  // Events that reached a worker while they held a token.
  struct Had {
    absl::Time until;    // when the token was taken from them
    std::string sender;  // who made the last such delivery
  };
  std::map<Place, Had> had_;
  std::map<std::pair<Place, uint32_t>, int> sends_;  // by event and number of the attempt
  std::map<Key, uint64_t> out_under_;                // tokens that events of out_ hold
  // How many were held when the limits were last changed, less those that were given back since.
  std::map<Key, uint64_t> drained_to_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckSink(const History& history) { return SinkChecker(history).Run(); }

namespace {

// A free token lies idle for at most a second, plus the way to the store.
constexpr absl::Duration kIdleMax = absl::Milliseconds(1050);
// A row that its schedule no longer wants is ended a second after its launch.
constexpr absl::Duration kSupersededAfter = absl::Seconds(1);
// The longest backoff for targets that cannot be reached, plus the time of a probe.
constexpr absl::Duration kPassedOverMax = absl::Seconds(65);

class IdleChecker {
 public:
  explicit IdleChecker(const History& history) : history_(history) {
    for (const ScheduleLife& life : history.schedules) targets_[life.uid] = life.target;
  }

  std::vector<Violation> Run() {
    for (const Commit& commit : history_.commits) {
      const std::set<std::string> touched = Touched(commit);
      if (commit.time > history_.calm) {
        for (const std::string& policy : touched) Check(policy, commit.time);
      }
      for (const LeaseWrite& lease : commit.leases) owners_[lease.lease] = lease.owner;
      Note(commit, replay_.Apply(commit));
      for (const std::string& policy : touched) changed_[policy] = commit.time;
    }
    for (const std::string& policy : known_) Check(policy, history_.end);
    return std::move(violations_);
  }

 private:
  // The policies whose waiting rows or free tokens the commit may change.
  std::set<std::string> Touched(const Commit& commit) {
    std::set<std::string> touched;
    for (const ThrottleWrite& write : commit.throttle) {
      if (const auto* policy = std::get_if<PolicyWrite>(&write)) touched.insert(policy->policy);
      if (const auto* grant = std::get_if<GrantWrite>(&write)) touched.insert(grant->name.policy);
      if (const auto* row = std::get_if<RowWrite>(&write); row != nullptr && !row->policy.empty())
        touched.insert(row->policy);
      if (std::holds_alternative<ScheduleStateWrite>(write) ||
          std::holds_alternative<ReportWrite>(write))
        touched.insert(known_.begin(), known_.end());
    }
    known_.insert(touched.begin(), touched.end());
    return touched;
  }

  void Note(const Commit& commit, const TokenReplay::Changes& changes) {
    for (const ThrottleWrite& write : commit.throttle) {
      if (const auto* report = std::get_if<ReportWrite>(&write)) NoteReport(commit, *report);
      if (const auto* policy = std::get_if<PolicyWrite>(&write)) conforms_.erase(policy->policy);
    }
    for (const FenceSeen& fence : commit.fence) {
      if (!absl::StartsWith(fence.lease, "policy_shard/")) continue;
      for (const TokenReplay::HolderChange& added : changes.added)
        shard_of_[added.grant.policy] = fence.lease;
    }
    for (const TokenReplay::HolderChange& added : changes.added) {
      const std::string& target = target_of_[added.grant] = targets_[added.run.first];
      Outage& outage = OutageOf(added.grant.policy, target);
      if (outage.on) outage.until = std::max(outage.until, commit.time + kPassedOverMax);
    }
    for (const auto* granted : {&changes.added, &changes.woken}) {
      for (const TokenReplay::HolderChange& each : *granted) {
        if (!each.asleep) NoteRates(commit, each);
      }
    }
  }

  void NoteRates(const Commit& commit, const TokenReplay::HolderChange& granted) {
    const auto policy = replay_.policies().find(granted.grant.policy);
    if (policy == replay_.policies().end()) return;
    // When the whole burst is free again. Until then the rate may allow no grant.
    const auto note = [&](double per_second, const std::string& key) {
      if (per_second <= 0) return;
      absl::Time& full = conforms_[granted.grant.policy][key];
      full = std::max(full, commit.time) +
             absl::Seconds(static_cast<double>(granted.events.count) / per_second);
    };
    note(policy->second.max_per_second, "");
    note(policy->second.key_per_second, absl::StrCat("/", granted.limits.front().key));
  }

  void NoteReport(const Commit& commit, const ReportWrite& report) {
    auto target = target_of_.find(report.grant);
    if (target == target_of_.end()) return;
    Outage& outage = OutageOf(report.grant.policy, target->second);
    if (report.paused_until != absl::InfinitePast()) {
      // A key, or the target, and no others; and each handler knows of the pause.
      pauses_[report.grant.policy] =
          std::max(pauses_[report.grant.policy], report.paused_until + kPassedOverMax);
      outage.on = true;
      outage.asked = std::max(outage.asked, report.paused_until);
      outage.until = std::max(outage.until, report.paused_until + kPassedOverMax);
      return;
    }
    if (report.unreachable) {
      outage.on = true;
      outage.until = commit.time + kPassedOverMax;
    }
    // One-off events go to several targets. An attempt from before a pause does not end it.
    if (report.delivered && !target->second.empty() && commit.time > outage.asked)
      outage = {.on = false, .until = std::min(outage.until, commit.time)};
  }

  // A target that could not be reached, as one owner of policies knows from its own reports. The
  // owner passes it over until `until`, also while a probe is out.
  struct Outage {
    bool on = false;
    absl::Time until = absl::UnixEpoch();
    absl::Time asked = absl::UnixEpoch();  // the consumer asked for a pause until then
  };
  Outage& OutageOf(const std::string& policy, const std::string& target) {
    return outages_[{owners_[shard_of_[policy]], target}];
  }

  absl::Time PassedOverUntil(const std::string& policy, const std::string& target) {
    // Those of one-off events may be of any target.
    if (shard_of_.contains(policy))
      return std::max(OutageOf(policy, target).until, OutageOf(policy, "").until);
    // The policy has granted nothing yet, so its owner is unknown.
    absl::Time until = absl::UnixEpoch();
    for (const auto& [whose, outage] : outages_) {
      if (whose.second == target || whose.second.empty()) until = std::max(until, outage.until);
    }
    return until;
  }

  // Nothing has changed the policy since changed_[name].
  void Check(const std::string& name, absl::Time now) {
    const auto* rows = replay_.waiting(name);
    // Tokens are kept back for events that need several at once.
    if (rows == nullptr || replay_.several()) return;
    absl::Time free = std::max({history_.calm, changed_[name], pauses_[name]});
    auto policy = replay_.policies().find(name);
    if (policy != replay_.policies().end()) {
      const std::optional<uint64_t> m = MaxConcurrent(policy->second, std::nullopt, now);
      if (policy->second.paused || (m.has_value() && replay_.held(name) >= *m)) return;
      // Exact for a burst of one. With larger bursts some idle time goes unnoticed.
      free = std::max(free, conforms_[name][""]);
      for (const OverrideWrite& override : policy->second.overrides) {
        if (override.rate) return;
        if (override.ends <= now) free = std::max(free, override.ends + kOverrideEndsLate);
      }
    }
    for (const auto& [key, row] : *rows) {
      absl::Time from = std::max({free, ReadyAt(row), PassedOverUntil(name, targets_[row.uid])});
      if (policy != replay_.policies().end()) {
        const std::optional<uint64_t> m = MaxConcurrent(policy->second, row.policy_key, now);
        if (m.has_value() && replay_.held_of(name, row.policy_key) >= *m) continue;
        from = std::max(from, conforms_[name][absl::StrCat("/", row.policy_key)]);
      }
      const absl::Time to = std::min(now, row.closes);
      const bool first_attempt = row.last_error.empty();
      const absl::Time looked_at =
          first_attempt ? std::max(from, row.due + kSupersededAfter) : from;
      if (!replay_.goes_on({row.uid, row.occurrence}) || to - looked_at <= kIdleMax) continue;
      violations_.push_back(
          {"idle", absl::StrCat("policy ", name, " has a free token (", replay_.held(name),
                                " held) and grants it not to ", row.uid, " ", row.occurrence, "[",
                                row.events.first, " +", row.events.count, "], which may go since ",
                                absl::FormatTime(from, absl::UTCTimeZone()), ", until ",
                                absl::FormatTime(to, absl::UTCTimeZone()))});
      return;
    }
  }

  static absl::Time ReadyAt(const RowWrite& row) {
    // A row that was carried over waits for its next window.
    const absl::Time begin = std::max(row.due, row.window_begin);
    if (row.pace_count == 0 || row.events.first < row.pace_first) return begin;
    const double share = static_cast<double>(row.events.first - row.pace_first) /
                         static_cast<double>(row.pace_count);
    return std::max(begin, row.window_begin + row.window * share);
  }

  const History& history_;
  TokenReplay replay_;
  std::map<std::string, std::string> targets_;  // by uid
  std::map<GrantName, std::string> target_of_;
  std::map<std::pair<std::string, std::string>, Outage> outages_;      // by owner and target
  std::map<std::string, std::string> shard_of_;                        // by policy
  std::map<std::string, std::string> owners_;                          // by lease
  std::map<std::string, std::map<std::string, absl::Time>> conforms_;  // by policy; as CapChecker
  std::map<std::string, absl::Time> changed_;                          // by policy
  std::map<std::string, absl::Time> pauses_;  // by policy: no idle time is judged until then
  std::set<std::string> known_;               // policies
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckIdle(const History& history) { return IdleChecker(history).Run(); }

}  // namespace escapement::simulation
