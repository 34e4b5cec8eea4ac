// ReportedEnd: what a report of a handler or of a consumer says about the end of events, or about
// the attempt after which they wait again.
//
// Pure.

#ifndef SERVICES_TOKEN_MANAGER_HOLDING_REPORTED_END_H_
#define SERVICES_TOKEN_MANAGER_HOLDING_REPORTED_END_H_

#include <cstdint>
#include <string>

#include "escapement/storage/v1/records.pb.h"
#include "services/token_manager/holding/grant_set.h"

namespace escapement::token_manager {

struct ReportedEnd {
  storage::v1::OutcomeKind outcome = storage::v1::OUTCOME_KIND_SUCCEEDED;
  uint32_t attempts = 0;        // 0: as granted, and this one
  int64_t dispatch_micros = 0;  // 0: unknown
  int64_t time_micros = 0;
  bool delivered = false;  // the end shows that the events were delivered, if that was unknown
  std::string reason = {};
  std::string output = {};  // only for events that succeeded
  // The last attempt. KIND_UNSPECIFIED: there was none.
  storage::v1::AttemptRecord::Kind attempt = storage::v1::AttemptRecord::KIND_UNSPECIFIED;
  int32_t status = 0;       // AttemptRecord.status
  std::string answer = {};  // only for attempts that failed
};

// All but `outcome` and `delivered`. The time is now_micros if the entry has none.
ReportedEnd ReportedEndOf(const storage::v1::GrantReportRecord::Entry& entry, int64_t now_micros);

// The last attempt, number `number`, of events that were held in the range. A handler's report has
// the attempt's times and status. A consumer's report has none: they are those of the range.
storage::v1::AttemptRecord AttemptOf(const ReportedEnd& end, const HeldRange& range,
                                     uint32_t number);

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_HOLDING_REPORTED_END_H_
