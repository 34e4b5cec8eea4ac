#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/tokens/token_checks.h"
#include "tests/simulation/record/token_replay.h"

namespace escapement::simulation {

namespace {

// No handler has reported for this long after the last moment of an attempt:
// docs/design/throttling.md.
constexpr absl::Duration kSilence = absl::Seconds(30);
// The owner of a policy shard acts within this time.
constexpr absl::Duration kLateMax = absl::Seconds(5);
constexpr char kHoldExpired[] = "hold_expired";

class HoldsChecker {
 public:
  explicit HoldsChecker(const History& history) : history_(history) {}

  std::vector<Violation> Run() {
    for (const Commit& commit : history_.commits) {
      commit_ = &commit;
      CheckDue(commit.time, commit.store_time);
      const TokenReplay::Changes changes = replay_.Apply(commit);
      for (const TokenReplay::HolderChange& removed : changes.removed) Take(changes, removed);
      for (const ThrottleWrite& write : commit.throttle) {
        if (const auto* policy = std::get_if<PolicyWrite>(&write)) NotePolicy(*policy);
        if (const auto* report = std::get_if<ReportWrite>(&write)) NoteReport(*report);
        if (const auto* grant = std::get_if<GrantWrite>(&write)) NoteGrant(*grant);
      }
    }
    if (!history_.commits.empty()) {
      const Commit& last = history_.commits.back();
      CheckDue(history_.end, last.store_time + (history_.end - last.time));
    }
    return std::move(violations_);
  }

 private:
  struct Hold {  // bounds over all writes of the policy
    absl::Duration shortest = absl::InfiniteDuration();
    absl::Duration longest = absl::ZeroDuration();
    bool reclaims = false;
    bool holds = false;
  };
  struct Holder {
    TokenReplay::Run run;
    absl::Time reported_first = absl::InfiniteFuture();  // when it was accepted, as reported
    absl::Time reported_last = absl::InfinitePast();
    bool returned = false;  // a handler gave the token back
    absl::Time delivered = absl::InfinitePast();
    absl::Time expires = absl::InfinitePast();
    absl::Time silent;                        // without any report by then, the token is taken back
    absl::Time due = absl::InfiniteFuture();  // its time in due_
  };
  using Name = std::pair<GrantName, uint64_t>;  // grant, and the event's index

  void Report(const TokenReplay::Run& run, uint64_t index, const std::string& what) {
    violations_.push_back(
        {"holds", absl::StrCat("commit ", commit_->seq, " at ", Text(commit_->store_time), ": ",
                               run.first, " ", run.second, "[", index, "] ", what)});
  }

  static std::string Text(absl::Time time) { return absl::FormatTime(time, absl::UTCTimeZone()); }

  void NotePolicy(const PolicyWrite& write) {
    if (write.deleted || write.hold <= absl::ZeroDuration()) return;
    Hold& hold = holds_[write.policy];
    hold.shortest = std::min(hold.shortest, write.hold);
    hold.longest = std::max(hold.longest, write.hold);
    (write.hold_on_expiry ? hold.holds : hold.reclaims) = true;
  }

  void NoteReport(const ReportWrite& report) {
    for (uint64_t i = 0; i < report.events.count; ++i) {
      const auto it = holders_.find({report.grant, report.events.first + i});
      if (it == holders_.end()) continue;
      Holder& holder = it->second;
      if (report.kind == "RETURNED") holder.returned = true;
      if (report.kind != "DELIVERED" || report.time == absl::InfinitePast()) continue;
      holder.reported_first = std::min(holder.reported_first, report.time);
      holder.reported_last = std::max(holder.reported_last, report.time);
      Plan(it->first, &holder);
    }
  }

  void NoteGrant(const GrantWrite& write) {
    if (write.deleted) return;
    for (const HoldTimes& times : write.hold_times) {
      for (uint64_t i = 0; i < times.events.count; ++i) {
        const Name name{write.name, times.events.first + i};
        Holder& holder = holders_[name];
        holder.run = {write.uid, write.occurrence};
        holder.delivered = times.delivered;
        holder.expires = times.expires;
        holder.silent = write.retry_at != absl::InfinitePast()
                            ? absl::InfiniteFuture()
                            : write.send_before + write.timeout + kSilence;
        Plan(name, &holder);
      }
    }
  }

  // Computes when the holder must lose its token at the latest.
  void Plan(const Name& name, Holder* holder) {
    absl::Time due = absl::InfiniteFuture();
    const Hold* hold = HoldOf(name.first.policy);
    if (holder->delivered == absl::InfinitePast()) {
      due = holder->silent;
    } else if (hold == nullptr) {
      due = holder->expires;  // its schedule has no policy
    } else if (!hold->holds && holder->reported_last != absl::InfinitePast()) {
      due = holder->reported_last + hold->longest;
      // If the hold time was extended, the grant's record decides.
      const absl::Duration recorded = holder->expires - holder->delivered;
      if (recorded < hold->shortest || recorded > hold->longest)
        due = std::max(due, holder->expires);
    }
    if (due == holder->due) return;
    due_.erase({holder->due, name});
    holder->due = due;
    if (due != absl::InfiniteFuture()) due_.emplace(due, name);
  }

  const Hold* HoldOf(const std::string& policy) const {
    const auto it = holds_.find(policy);
    return it == holds_.end() ? nullptr : &it->second;
  }

  // Reports holders that still hold just before `now`. Faults may have kept owners busy until the
  // calm.
  void CheckDue(absl::Time now, absl::Time store_now) {
    if (now <= history_.calm + kLateMax) return;
    while (!due_.empty() && store_now - due_.begin()->first > kLateMax) {
      const Name name = due_.begin()->second;
      Holder& holder = holders_[name];
      due_.erase(due_.begin());
      Report(holder.run, name.second,
             absl::StrCat("still holds its token of policy ", name.first.policy,
                          ", and its time was over at ", Text(holder.due)));
      holder.due = absl::InfiniteFuture();
    }
  }

  void Take(const TokenReplay::Changes& changes, const TokenReplay::HolderChange& removed) {
    for (uint64_t i = 0; i < removed.events.count; ++i) {
      const uint64_t index = removed.events.first + i;
      const auto it = holders_.find({removed.grant, index});
      if (it == holders_.end()) continue;
      CheckTaken(changes, removed, index, it->second);
      due_.erase({it->second.due, it->first});
      holders_.erase(it);
    }
  }

  void CheckTaken(const TokenReplay::Changes& changes, const TokenReplay::HolderChange& removed,
                  uint64_t index, const Holder& holder) {
    const absl::Time now = commit_->store_time;
    const RowWrite* row = Waits(changes, removed.run, index);
    // The token was given back if the row has the due time and the last error from before the
    // grant. A retry would be due later; but a grant may be made a little ahead of that time.
    const bool given_back =
        row != nullptr && (row->due <= removed.grant_time || row->due == removed.return_due);
    if (row != nullptr ? !given_back && row->last_error == kHoldExpired
                       : EndedExpired(removed.run, index)) {
      const Hold* hold = HoldOf(removed.grant.policy);
      if (hold != nullptr && !hold->reclaims)
        Report(removed.run, index, "lost its token by its hold time, and its policy says HOLD");
      if (now < holder.expires)
        Report(
            removed.run, index,
            absl::StrCat("lost its token by its hold time, which goes to ", Text(holder.expires)));
      if (hold != nullptr && holder.reported_first != absl::InfiniteFuture() &&
          now < holder.reported_first + hold->shortest)
        Report(removed.run, index,
               absl::StrCat("lost its token by its hold time of ",
                            absl::FormatDuration(hold->shortest), ", and was accepted at ",
                            Text(holder.reported_first)));
    } else if (given_back && !removed.asleep && !holder.returned && now < holder.silent) {
      Report(removed.run, index,
             absl::StrCat("waits again as if it had not been granted, which nobody has said; and "
                          "somebody may until ",
                          Text(holder.silent)));
    }
  }

  static bool Has(const Indices& events, uint64_t index) {
    return index >= events.first && index < events.first + events.count;
  }

  bool EndedExpired(const TokenReplay::Run& run, uint64_t index) const {
    return std::any_of(
        commit_->throttle.begin(), commit_->throttle.end(), [&](const ThrottleWrite& write) {
          const auto* end = std::get_if<EndWrite>(&write);
          return end != nullptr && absl::StrContains(end->reason, kHoldExpired) &&
                 end->uid == run.first && end->occurrence == run.second && Has(end->events, index);
        });
  }

  // The row by which the event waits since this commit; null if there is none.
  const RowWrite* Waits(const TokenReplay::Changes& changes, const TokenReplay::Run& run,
                        uint64_t index) const {
    if (std::none_of(changes.waiting_added.begin(), changes.waiting_added.end(),
                     [&](const TokenReplay::RowChange& added) {
                       return added.run == run && Has(added.events, index);
                     }))
      return nullptr;
    for (const ThrottleWrite& write : commit_->throttle) {
      const auto* row = std::get_if<RowWrite>(&write);
      if (row != nullptr && !row->deleted && row->table == RowWrite::Table::kWaiting &&
          row->uid == run.first && row->occurrence == run.second && Has(row->events, index))
        return row;
    }
    return nullptr;
  }

  const History& history_;
  const Commit* commit_ = nullptr;
  TokenReplay replay_;
  std::map<std::string, Hold> holds_;  // by policy
  std::map<Name, Holder> holders_;
  std::set<std::pair<absl::Time, Name>> due_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckHolds(const History& history) { return HoldsChecker(history).Run(); }

namespace {

class CapChecker {
 public:
  std::vector<Violation> Run(const History& history) {
    for (const Commit& commit : history.commits) {
      seq_ = commit.seq;
      const TokenReplay::Changes changes = replay_.Apply(commit);
      for (const ThrottleWrite& write : commit.throttle) {
        if (const auto* policy = std::get_if<PolicyWrite>(&write)) buckets_.erase(policy->policy);
      }
      now_ = commit.store_time;
      std::set<LimitOf> limits;
      for (const TokenReplay::HolderChange& added : changes.added) {
        if (!added.asleep) CheckGrant(commit, added);
        if (added.kept) continue;  // it had its tokens before
        for (LimitOf limit : added.limits) {
          limit.weight = 0;
          limits.insert(limit);
        }
      }
      for (const TokenReplay::HolderChange& woken : changes.woken) CheckGrant(commit, woken);
      for (const LimitOf& limit : limits) {
        CheckHeld(limit.policy, std::nullopt, replay_.held(limit.policy));
        CheckHeld(limit.policy, limit.key, replay_.held_of(limit.policy, limit.key));
      }
    }
    return std::move(violations_);
  }

 private:
  // The bucket of a rate: granted events that have not drained yet.
  struct Bucket {
    double level = 0;
    absl::Time time = absl::InfinitePast();
  };

  template <typename... Parts>
  void Report(const Parts&... parts) {
    violations_.push_back({"cap", absl::StrCat("commit ", seq_, ": ", parts...)});
  }

  void CheckGrant(const Commit& commit, const TokenReplay::HolderChange& added) {
    if (!replay_.goes_on(added.run)) {
      Report("granted to schedule ", added.run.first, ", which is paused or deleted");
    }
    if (added.grant_time > commit.store_time) {
      Report("a grant of ", added.grant.policy, " bears the time ",
             absl::FormatTime(added.grant_time, absl::UTCTimeZone()));
    }
    if (added.grant.policy == added.run.first) return;  // a schedule without a policy
    for (const LimitOf& limit : added.limits) {
      auto policy = replay_.policies().find(limit.policy);
      if (policy == replay_.policies().end()) {
        Report("granted under policy ", limit.policy, ", which is not there");
        continue;
      }
      const PolicyWrite& record = policy->second;
      if (record.paused) Report("granted under policy ", limit.policy, ", which is paused");
      // How an override changes a rate in use is tested elsewhere.
      if (std::any_of(record.overrides.begin(), record.overrides.end(),
                      [](const OverrideWrite& override) { return override.rate; }))
        continue;
      CheckRate(limit.policy, record.max_per_second, record.burst, buckets_[limit.policy][""],
                added);
      if (record.by_key) {
        CheckRate(absl::StrCat(limit.policy, ", key ", limit.key), record.key_per_second,
                  record.key_burst, buckets_[limit.policy][absl::StrCat("/", limit.key)], added);
      }
    }
  }

  void CheckRate(const std::string& name, double per_second, uint64_t burst, Bucket& bucket,
                 const TokenReplay::HolderChange& added) {
    if (per_second <= 0) return;
    const absl::Time now = std::max(bucket.time, added.grant_time);
    if (bucket.time != absl::InfinitePast()) {
      const double drained = absl::ToDoubleSeconds(now - bucket.time) * per_second;
      bucket.level = std::max(0.0, bucket.level - drained);
    }
    bucket.time = now;
    bucket.level += static_cast<double>(added.events.count);
    // Allows a microsecond for rounding in each event.
    const double rounding = 0.001 + static_cast<double>(added.events.count) * per_second * 1e-6;
    if (bucket.level > static_cast<double>(burst) + rounding) {
      Report("policy ", name, " of ", per_second, " a second and a burst of ", burst,
             " has granted ", bucket.level, " at once");
    }
    bucket.level = std::min(bucket.level, static_cast<double>(burst));
  }

  void CheckHeld(const std::string& name, const std::optional<std::string>& key, uint64_t held) {
    auto policy = replay_.policies().find(name);
    if (policy == replay_.policies().end()) return;
    const std::optional<uint64_t> now = MaxConcurrent(policy->second, key, now_);
    const std::optional<uint64_t> before =
        MaxConcurrent(policy->second, key, now_ - kOverrideEndsLate);
    if (!now.has_value() || !before.has_value() || held <= std::max(*now, *before)) return;
    Report("policy ", name, key.has_value() ? absl::StrCat(", key \"", *key, "\"") : "", " has ",
           held, " holders after a grant, of ", *now);
  }

  TokenReplay replay_;
  std::map<std::string, std::map<std::string, Bucket>> buckets_;  // by policy; of it and its keys
  absl::Time now_;
  uint64_t seq_ = 0;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckCap(const History& history) { return CapChecker().Run(history); }

}  // namespace escapement::simulation
