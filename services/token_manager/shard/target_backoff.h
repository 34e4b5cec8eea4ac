// TargetBackoff: which targets are passed over because they do not answer or have no room
// (docs/design/throttling.md, `send_before`), so that what waits for them holds no tokens while
// others wait.
//
// After a report that it is unreachable a target is passed over for 1 s, then 2 s, … 60 s. Reports
// that come while it is passed over count as the same outage. After that one grant at a time is
// let through as a probe: an answer makes it healthy, a report passes over it for twice as long.
// A probe of which nothing is heard for kProbePatience does not stand in the way of the next one,
// nor one whose policy shard has been lost: its answer goes to the shard's next owner.
//
// Healthy targets take no memory. Beyond kTargetsMax unhealthy ones the one that could be probed
// longest counts as healthy again. Every call costs O(log targets). Pure.

#ifndef SERVICES_TOKEN_MANAGER_SHARD_TARGET_BACKOFF_H_
#define SERVICES_TOKEN_MANAGER_SHARD_TARGET_BACKOFF_H_

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

namespace escapement::token_manager {

inline constexpr absl::Duration kTargetBackoffMin = absl::Seconds(1);
inline constexpr absl::Duration kTargetBackoffMax = absl::Seconds(60);
inline constexpr absl::Duration kProbePatience = absl::Seconds(60);

class TargetBackoff {
 public:
  // Names a grant.
  struct Probe {
    uint32_t policy_shard = 0;
    uint64_t epoch = 0;
    uint64_t number = 0;
    friend bool operator==(const Probe&, const Probe&) = default;
  };
  static constexpr uint64_t kAnyNumber = ~uint64_t{0};
  static constexpr size_t kTargetsMax = 100'000;

  explicit TargetBackoff(size_t targets_max = kTargetsMax) : targets_max_(targets_max) {}

  void OnUnreachable(absl::string_view target, absl::Time now);
  // An attempt was answered, whatever the answer. True: it had been unhealthy.
  bool OnAnswered(absl::string_view target);

  // How many more events may be granted that go to this target: 0 while it is passed over or a
  // probe is out, 1 for the probe, kAnyNumber if it is healthy.
  uint64_t Allowed(absl::string_view target, absl::Time now) const;
  // n > 0 events were granted. For an unhealthy target this grant is the probe.
  void OnGranted(absl::string_view target, uint64_t n, const Probe& grant, absl::Time now);
  // The probe was not sent after all (the schedule was paused, say): the next one may go.
  void OnProbeVoid(absl::string_view target, absl::Time now);
  // The same for all that are out of this shard. O(unhealthy targets).
  void OnShardLost(uint32_t policy_shard, absl::Time now);
  // The target of which the grant is the probe; nullptr: of none. O(unhealthy targets).
  const std::string* TargetOf(const Probe& grant) const;

  // The next instant after `now` at which time alone lets a probe go to some target.
  std::optional<absl::Time> NextAt(absl::Time now) const;
  // The targets to which time alone has let a probe go since the last call, at most `max`.
  std::vector<std::string> TakeOpened(absl::Time now, size_t max);

  size_t unhealthy() const { return targets_.size(); }

 private:
  struct Target {
    absl::Duration backoff;
    absl::Time opens_at;             // when the next probe may go
    std::optional<Probe> probe_out;  // until opens_at
  };
  using Targets = std::map<std::string, Target, std::less<>>;

  void SetOpening(Targets::iterator it, absl::Time opens_at);
  void VoidProbe(Targets::iterator it, absl::Time now);
  void Forget(Targets::iterator it);

  size_t targets_max_;
  Targets targets_;
  std::set<std::pair<absl::Time, std::string>> openings_;  // all
  std::set<std::pair<absl::Time, std::string>> not_told_;  // those TakeOpened has not told of
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SHARD_TARGET_BACKOFF_H_
