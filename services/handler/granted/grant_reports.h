// GrantReports: what became of granted events, as the owners of their policy shards are told: one
// row in `waiting` for each policy shard and commit.
//
// Pure: adds to a group, decides nothing.

#ifndef SERVICES_HANDLER_GRANTED_GRANT_REPORTS_H_
#define SERVICES_HANDLER_GRANTED_GRANT_REPORTS_H_

#include <cstdint>
#include <map>

#include "common/kv/kv_store.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/claims/claim.h"

namespace escapement::handler {

// Names the rows of one commit.
struct ReportOrigin {
  uint16_t shard = 0;   // the queue shard
  uint64_t epoch = 0;   // of its lease
  uint64_t number = 0;  // of the commit, in that epoch
};

// How the outcome of an event with a grant is told.
storage::v1::GrantReportRecord::Kind ReportKindOf(const EntryGrant& grant, const Outcome& outcome);

class GrantReports {
 public:
  // Events [first.first, first.first + count) of the entry, which has a grant, became alike.
  void Add(const ClaimedEntry& entry, const Outcome& first, const Outcome& last, uint64_t count);

  void Put(const ReportOrigin& origin, kv::Group& group) const;

 private:
  std::map<uint16_t, storage::v1::GrantReportRecord> by_shard_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_GRANTED_GRANT_REPORTS_H_
