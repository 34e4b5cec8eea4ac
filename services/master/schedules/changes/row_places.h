// ReadRowPlaces: the places where rows of a schedule's occurrences may be.
//
// The version that writes a row decides its place: the due time (by the jitter), the lane (by the
// priority), the policy. Later versions move the row to their priority and policy, and only when
// its owner judges it; its due time stays. So the places follow from the present version and from
// the former versions that were in force since the occurrence was emitted. Former versions are kept
// as long as rows wait (common/storage/README.md).
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_ROW_PLACES_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_ROW_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/range_reader.h"

namespace escapement::master {

// Occurrences are emitted at most this long before their nominal time (--emit_ahead is less).
inline constexpr absl::Duration kEmittedAheadMax = absl::Minutes(10);

// Rows of one schedule and priority that wait under one policy.
struct WaitingGroup {
  WaitingPlace place;
  uint8_t priority = 5;
};

class RowPlaces {
 public:
  // Only the places of the present version.
  RowPlaces(OccurrenceSource present, const kv::Layout& layout);

  // The next older version.
  void Add(storage::v1::DefinitionRecord former);
  // There are older versions that may have placed rows, too.
  void SetCut() { cut_ = true; }

  const OccurrenceSource& present() const { return present_; }
  // Former versions, the newest first, without payloads and deliveries.
  const std::vector<storage::v1::DefinitionRecord>& former() const { return former_; }
  // True if there are more places than are known here.
  bool cut() const { return cut_; }

  // Lanes of rows that wait neither for a token nor for a retry: priorities, and catch-up.
  const std::set<uint8_t>& lanes() const { return lanes_; }
  // That of the oldest version first: rows move to later ones.
  const std::vector<WaitingGroup>& groups() const { return groups_; }
  // True if some version has no policy.
  bool unthrottled() const { return unthrottled_; }
  // True if some version has an overlap policy: there may be launch records.
  bool launches() const { return launches_; }
  absl::Duration jitter_max() const { return *jitters_.rbegin(); }

  size_t due_times_max() const { return jitters_.size(); }

  // When rows of the occurrence may be due, ascending: nominal for triggered runs, or later.
  std::vector<absl::Time> DueTimes(const std::string& occurrence, absl::Time nominal) const;
  std::string LaunchKeyAt(const std::string& occurrence, absl::Time due) const;
  // The key of the row that holds the first events of the run, in this group.
  std::string WaitingKeyAt(const WaitingGroup& group, const std::string& occurrence,
                           absl::Time due) const;

 private:
  void AddSource(const OccurrenceSource& source);

  OccurrenceSource present_;
  kv::Layout layout_;
  std::vector<storage::v1::DefinitionRecord> former_;
  std::set<absl::Duration> jitters_;  // with 0
  std::set<uint8_t> lanes_;
  std::vector<WaitingGroup> groups_;  // distinct
  bool unthrottled_ = false;
  bool launches_ = false;
  bool cut_ = false;
};

// Adds the places between which events of a queue shard go back and forth: claims, retries, and the
// claims once more. So an event that moves from one to the other during the reading is not missed.
void AddMovingRanges(uint16_t queue_shard, std::vector<KeyRange>& ranges);

// Reads the former versions that may have placed rows of occurrences with nominal times from
// `oldest` on: at most kPlaceVersionsMax, and kPlaceBytesMax of them. `present` is of
// the schedule's present definition. Calls back at once if there are no former versions.
void ReadRowPlaces(MasterContext& context, OccurrenceSource present, absl::Time oldest,
                   absl::AnyInvocable<void(absl::StatusOr<RowPlaces>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_ROW_PLACES_H_
