// RedriveBatch: the one group that redrives dead letters.
//
// The group deletes each dead letter and its event's Done record, and writes the event's row again,
// due at a given time. Rows of throttled events go to `waiting`, others to the retry lane of
// `events`. One-off events under a policy have a row in both: they wait where the policy's record
// of now says. One-off events also get an event_names row, and a copy of their delivery for the new
// due time (event_table.h). If the event's run has a record, the masters' part of its counts falls
// by one failed event. That part alone may be below zero: counts are modulo 2^64, and the sum of a
// run's parts is right.
//
// Each dead letter, schedule, run part, event name and policy is a condition as it was read. So a
// race with another redrive, a purge or a change of the schedule or policy makes the group fail,
// and the caller reads again.
//
// Pure.

#ifndef SERVICES_MASTER_OPERATIONS_REDRIVE_BATCH_H_
#define SERVICES_MASTER_OPERATIONS_REDRIVE_BATCH_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/operations/dead_letter_list.h"

namespace escapement::master {

// Rows of the store by family and key, as they were read; nullopt: absent.
using RedriveFacts = std::map<std::pair<kv::ColumnFamily, std::string>, std::optional<std::string>>;

// The rows that a redrive of this dead letter needs to know.
std::vector<kv::Key> RedriveFactKeys(const StoredDeadLetter& letter);

class RedriveBatch {
 public:
  // `facts` outlives it and has the rows of RedriveFactKeys of every dead letter that is added.
  // `now` is the store's time.
  RedriveBatch(const RedriveFacts& facts, const kv::Layout& layout, absl::Time now)
      : facts_(facts), layout_(layout), now_(now) {}

  // Adds the redrive; the event's next attempt is due at `due`. On an error nothing is added:
  // FAILED_PRECONDITION (SCHEDULE_DELETED, RUN_CANCELLED, EVENT_ID_TAKEN, POLICY_NOT_FOUND,
  // POLICIES_APART) or DATA_LOSS.
  absl::Status Add(const StoredDeadLetter& letter, absl::Time due);

  // The event's row of the last Add that succeeded.
  const storage::v1::EventRecord& row() const { return row_; }

  // Appends conditions and mutations to `group`. The batch is used up.
  void MoveTo(kv::Group& group);

 private:
  const std::optional<std::string>& Fact(kv::ColumnFamily cf, const std::string& key) const;
  absl::Status CheckSchedule(const StoredDeadLetter& letter);
  absl::Status CheckOneOff(const StoredDeadLetter& letter) const;
  // The policies of a one-off event, as they were read. FAILED_PRECONDITION (POLICY_NOT_FOUND) if
  // one is missing.
  absl::StatusOr<Policies> PoliciesNow(const StoredDeadLetter& letter) const;
  // Parse the row that was read, once for all letters. Null: it is broken. A schedule without a
  // state is a deleted one.
  const storage::v1::StateRecord* StateOf(const StoredDeadLetter& letter);
  storage::v1::RunPartRecord* RunPartOf(const StoredDeadLetter& letter);
  // Counts the event out of its run. False: the run has no record any more.
  bool TakeFromRun(const StoredDeadLetter& letter);
  // Stores the delivery of the one-off event again if the one that was read is of another period.
  void RenewDelivery(absl::Time due);
  void PutName(const StoredDeadLetter& letter, const std::string& event_key,
               const std::string& waiting_key);
  void PutLimited(const StoredDeadLetter& letter, absl::Time due, uint16_t queue_shard);
  void PutRow(const StoredDeadLetter& letter, absl::Time due, uint16_t queue_shard);
  // Adds the condition that the row is as it was read, once.
  void Require(kv::ColumnFamily cf, const std::string& key);

  const RedriveFacts& facts_;
  const kv::Layout layout_;
  const absl::Time now_;
  kv::Group group_;
  std::set<std::pair<kv::ColumnFamily, std::string>> required_;
  std::map<std::string, storage::v1::StateRecord> states_;   // by key in `states`
  std::map<std::string, storage::v1::RunPartRecord> parts_;  // by key in `run_parts`
  std::set<std::string> changed_parts_;                      // their keys
  std::set<Uid> renewed_;                                    // hashes of deliveries
  storage::v1::EventRecord row_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_REDRIVE_BATCH_H_
