// TargetBackoff: which targets are passed over because they do not answer or have no room
// (docs/design/throttling.md, "Start, and slow targets"), and which targets, or keys of policies,
// have asked for a pause (429).
//
// After a report that it is unreachable a target is passed over for 1 s, then 2 s, … 60 s. Reports
// that come while it is passed over count as the same outage. After that one grant at a time is
// let through as a probe: an answer makes it healthy, a report passes over it for twice as long.
// A probe of which nothing is heard for kProbePatience does not stand in the way of the next one,
// nor one whose policy shard has been lost: its answer goes to the shard's next owner.
//
// A probe is also let through when a handler tells that it sees the target well, or when somebody
// resets it.
//
// A pause ends at the time that was asked for, and then the same holds: one probe at a time, until
// one is answered by something else than a pause. Answers to attempts from before the pause change
// nothing.
//
// Healthy targets take no memory. Beyond kTargetsMax unhealthy ones the one that could be probed
// longest counts as healthy again. Every call costs O(log targets), except OnReset. Pure.

#ifndef SERVICES_TOKEN_MANAGER_SHARD_TARGET_BACKOFF_H_
#define SERVICES_TOKEN_MANAGER_SHARD_TARGET_BACKOFF_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"

namespace escapement::token_manager {

inline constexpr absl::Duration kTargetBackoffMin = absl::Seconds(1);
inline constexpr absl::Duration kTargetBackoffMax = absl::Seconds(60);
inline constexpr absl::Duration kProbePatience = absl::Seconds(60);

// The name under which a key of a policy is kept here; no target has such a name.
std::string PausedKey(const Uid& policy, absl::string_view policy_key);

class TargetBackoff {
 public:
  // Names a grant.
  struct Probe {
    uint32_t policy_shard = 0;
    uint64_t epoch = 0;
    uint64_t number = 0;
    friend auto operator<=>(const Probe&, const Probe&) = default;
  };
  static constexpr uint64_t kAnyNumber = ~uint64_t{0};
  static constexpr size_t kTargetsMax = 100'000;

  explicit TargetBackoff(size_t targets_max = kTargetsMax) : targets_max_(targets_max) {}

  void OnUnreachable(absl::string_view target, absl::Time now);
  // It asked for a pause until then.
  void OnPauseAsked(absl::string_view target, absl::Time until);
  // An attempt of the grant was answered, whatever the answer, but no pause. True: it had been
  // unhealthy.
  bool OnAnswered(absl::string_view target, const Probe& grant);

  // A handler sees it well: unless it asked for a pause, the next probe may go now.
  void OnSeenWell(absl::string_view target, absl::Time now);
  // Somebody has reset the target with this id (TargetIdOf): the next probe may go now.
  void OnReset(const Uid& target_id, absl::Time now);

  // How many more events may be granted: 0 while the target is passed over or a probe is out, 1 for
  // the probe, kAnyNumber if it is healthy.
  uint64_t Allowed(absl::string_view target, absl::Time now) const;
  // For an unhealthy target this grant is the probe.
  void OnGranted(absl::string_view target, const Probe& grant, absl::Time now);
  // The probe was not sent after all (the schedule was paused, say): the next one may go.
  void OnProbeVoid(absl::string_view target, absl::Time now);
  // The same for all that are out of this shard.
  void OnShardLost(uint32_t policy_shard, absl::Time now);
  bool IsProbe(const Probe& grant) const { return probes_.contains(grant); }
  // The target (not: key) of which the grant is the probe; nullptr: of none.
  const std::string* TargetOf(const Probe& grant) const;

  // The next instant after `now` at which time alone lets a probe go; InfiniteFuture: none.
  absl::Time NextAt(absl::Time now) const;
  // The targets to which time alone has let a probe go since the last call, at most `max`.
  std::vector<std::string> TakeOpened(absl::Time now, size_t max);

  size_t unhealthy() const { return targets_.size(); }

 private:
  struct Target {
    absl::Duration backoff;          // zero: none yet
    bool asked = false;              // for a pause, the last time
    absl::Time opens_at;             // when the next probe may go
    std::optional<Probe> probe_out;  // until opens_at
  };
  using Targets = std::map<std::string, Target, std::less<>>;

  Targets::iterator FindOrAdd(absl::string_view target);
  void Set(Targets::iterator it, absl::Time opens_at, std::optional<Probe> probe = std::nullopt);
  void Unlist(Targets::iterator it);
  void Forget(Targets::iterator it);

  size_t targets_max_;
  Targets targets_;
  std::multimap<Probe, std::string> probes_;               // that are out
  std::set<std::pair<absl::Time, std::string>> openings_;  // all
  std::set<std::pair<absl::Time, std::string>> not_told_;  // those TakeOpened has not told of
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SHARD_TARGET_BACKOFF_H_
