// GrantReports: reports the outcomes of granted events to the owners of their policy shards, as one
// row in `waiting` per policy shard and commit.
//
// Pure: adds to a group, decides nothing.

#ifndef SERVICES_HANDLER_SHARD_GRANT_REPORTS_H_
#define SERVICES_HANDLER_SHARD_GRANT_REPORTS_H_

#include <cstdint>
#include <map>

#include "common/kv/kv_store.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/sending/claim.h"

namespace escapement::handler {

// Names the rows of one commit.
struct ReportOrigin {
  uint16_t shard = 0;   // the queue shard
  uint64_t epoch = 0;   // the epoch of the shard's lease
  uint64_t number = 0;  // counts the shard's commits in that epoch
};

// The kind with which the outcome of a granted event is reported.
storage::v1::GrantReportRecord::Kind ReportKindOf(const EntryGrant& grant, const Outcome& outcome);

class GrantReports {
 public:
  // Adds `count` events of a granted entry, from first.first on, that have ended in the same way.
  // `last` is the outcome of the last of them.
  void Add(const ClaimedEntry& entry, const Outcome& first, const Outcome& last, uint64_t count);

  void Put(const ReportOrigin& origin, kv::Group& group) const;

 private:
  std::map<uint16_t, storage::v1::GrantReportRecord> by_shard_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SHARD_GRANT_REPORTS_H_
