// A row of `parked`: of `events`, or of `waiting` if it is throttled.
//
// Pure.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_PARKED_ROW_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_PARKED_ROW_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "common/storage/event_id.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::master {

struct ParkedRow {
  kv::Entry entry;  // as stored
  kv::Key home;     // where it was parked from
  storage::v1::EventRecord row;
  Uid uid;
  std::string occurrence;
  absl::Time due_time;
  uint64_t first = 0;  // the key's first index

  bool throttled() const { return row.has_throttle(); }
  // Its events: [begin, end).
  uint64_t begin() const { return first + row.throttle().taken(); }
  uint64_t end() const { return first + row.count(); }
};

// Reads the schedule's parked rows from the first one on, as many as one commit takes.
kv::ScanRequest ScanOfParked(const Uid& uid);

// DATA_LOSS if it cannot be read.
absl::StatusOr<ParkedRow> ReadParkedRow(kv::Entry entry);

// The row's events by the queue shard that their Done records are in.
std::vector<std::pair<uint16_t, IndexSlice>> SlicesOf(const ParkedRow& parked,
                                                      const kv::Layout& layout);

// ParkedEnds: ends parked rows, and counts their events in the masters' parts of their runs.
//
// Pure.

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

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_PARKED_ROW_H_
