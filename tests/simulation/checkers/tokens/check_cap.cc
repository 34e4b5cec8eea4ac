#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/tokens/token_checks.h"
#include "tests/simulation/record/token_replay.h"

namespace escapement::simulation {
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
      std::set<std::string> granted;
      for (const TokenReplay::HolderChange& added : changes.added) {
        granted.insert(added.grant.policy);
        CheckGrant(commit, added);
      }
      for (const std::string& policy : granted) CheckHeld(policy);
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
    const std::string& name = added.grant.policy;
    if (name == added.run.first) return;  // a schedule without a policy
    auto policy = replay_.policies().find(name);
    if (policy == replay_.policies().end()) {
      return Report("granted under policy ", name, ", which is not there");
    }
    if (policy->second.paused) Report("granted under policy ", name, ", which is paused");
    CheckRate(policy->second, added);
  }

  void CheckRate(const PolicyWrite& policy, const TokenReplay::HolderChange& added) {
    if (policy.max_per_second <= 0) return;
    Bucket& bucket = buckets_[policy.policy];
    const absl::Time now = std::max(bucket.time, added.grant_time);
    if (bucket.time != absl::InfinitePast()) {
      const double drained = absl::ToDoubleSeconds(now - bucket.time) * policy.max_per_second;
      bucket.level = std::max(0.0, bucket.level - drained);
    }
    bucket.time = now;
    bucket.level += static_cast<double>(added.events.count);
    // Allows a microsecond for rounding in each event.
    const double rounding =
        0.001 + static_cast<double>(added.events.count) * policy.max_per_second * 1e-6;
    if (bucket.level > static_cast<double>(policy.burst) + rounding) {
      Report("policy ", policy.policy, " of ", policy.max_per_second, " a second and a burst of ",
             policy.burst, " has granted ", bucket.level, " at once");
    }
    bucket.level = std::min(bucket.level, static_cast<double>(policy.burst));
  }

  void CheckHeld(const std::string& name) {
    auto policy = replay_.policies().find(name);
    if (policy == replay_.policies().end() || policy->second.max_concurrent == 0) return;
    if (replay_.held(name) <= policy->second.max_concurrent) return;
    Report("policy ", name, " has ", replay_.held(name), " holders after a grant, of ",
           policy->second.max_concurrent);
  }

  TokenReplay replay_;
  std::map<std::string, Bucket> buckets_;
  uint64_t seq_ = 0;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckCap(const History& history) { return CapChecker().Run(history); }

}  // namespace escapement::simulation
