// LocalGrants: the way of a completion to the owner of its policy shard when that is in this
// process. (To an owner elsewhere it goes as a report in `waiting`.)
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
  // For each entry in order: true if it took effect, false if its token was not held any more.
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<bool>>)>;

  virtual ~LocalGrants() = default;

  // Acts upon completions, releases and extensions (each of one event; policy_uid, epoch, number
  // set; time_micros 0: now) of one policy shard; `done` is called when the effect is durable.
  // UNAVAILABLE: the shard is not owned here (any more), and nothing is known of the effect: the
  // caller stores a report, which changes nothing if the effect was there already.
  virtual void Apply(uint16_t policy_shard,
                     std::vector<storage::v1::GrantReportRecord::Entry> entries, Done done) = 0;
};

}  // namespace escapement

#endif  // COMMON_TOKENS_LOCAL_GRANTS_H_
