// ParkedEnds: ends parked rows, and counts their events in the masters' parts of their runs.
//
// Pure.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_PARKED_ENDS_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_PARKED_ENDS_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/schedules/changes/parked_row.h"

namespace escapement::master {

// The masters' parts of runs, by key (RunPartKey), as they were read. nullopt: absent.
using StoredRunParts = std::map<std::string, std::optional<std::string>>;

class ParkedEnds {
 public:
  // `stored` outlives this and has the part of each row's run that has a run record.
  ParkedEnds(const StoredRunParts& stored, const kv::Layout& layout, absl::Time now)
      : stored_(stored), layout_(layout), now_(now) {}

  // Adds to the group: the row goes, its events have Done records. Condition: the row is present.
  // `outcome` is SKIPPED or CANCELLED. DATA_LOSS if the run's part cannot be read.
  absl::Status End(const ParkedRow& parked, storage::v1::OutcomeKind outcome,
                   absl::string_view reason, kv::Group& group);
  // Writes the parts that End has changed. Condition: they are as they were read.
  void PutRunParts(kv::Group& group) const;

 private:
  const StoredRunParts& stored_;
  const kv::Layout layout_;
  const absl::Time now_;
  std::map<std::string, storage::v1::RunPartRecord> parts_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_PARKED_ENDS_H_
