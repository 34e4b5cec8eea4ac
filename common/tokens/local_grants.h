// LocalGrants: hands completions to the owner of their policy shard, if the owner is in this
// process. (An owner elsewhere gets them as reports in `waiting`.)
//
// Threads: any; `done` runs on the owner's executor, exactly once.

#ifndef COMMON_TOKENS_LOCAL_GRANTS_H_
#define COMMON_TOKENS_LOCAL_GRANTS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

class LocalGrants {
 public:
  // For each entry in order: true if it took effect, false if its token was no longer held.
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<bool>>)>;

  virtual ~LocalGrants() = default;

  // Applies completions, releases and extensions of one policy shard. Each entry is about one event
  // and has policy_uid, epoch and number set; time_micros 0 means now. Calls `done` when the effect
  // is durable. UNAVAILABLE: this process does not own the shard, or no longer, and the effect is
  // unknown. The caller then stores a report, which changes nothing if the effect was already
  // there.
  virtual void Apply(uint16_t policy_shard,
                     std::vector<storage::v1::GrantReportRecord::Entry> entries, Done done) = 0;
};

}  // namespace escapement

#endif  // COMMON_TOKENS_LOCAL_GRANTS_H_
