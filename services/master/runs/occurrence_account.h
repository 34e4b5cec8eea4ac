// The account of a schedule's occurrences, or of those of all schedules of a tenant: what became of
// each occurrence that the definitions give (expected_occurrences.h).
//
// For some schedules at a time it reads, in this order:
//  1. states, and how far their partitions are emitted, in one snapshot;
//  2. the definitions that were in force in the range;
//  3. run and Done records of the expected occurrences;
//  4. of the rest, the summaries that stand for them, and then all places where their rows, claims
//     and tokens may be (schedules/changes/backfill_reader.h);
//  5. of runs that should have ended, whether any row is left.
// An occurrence that is in none of these places may have moved while they were read, or its
// schedule was changed. So its schedule is read once more before the answer is UNACCOUNTED.
//
// An occurrence that the emitter has not reached yet is PENDING: it has to have a trace only once
// emitted_to has passed it.
//
// Threads: callbacks run on the context's executor.

#ifndef SERVICES_MASTER_RUNS_OCCURRENCE_ACCOUNT_H_
#define SERVICES_MASTER_RUNS_OCCURRENCE_ACCOUNT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "escapement/v1/schedule_service.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/list_filter.h"

namespace escapement::master {

// INVALID_ARGUMENT (filter).
absl::StatusOr<ListFilter> ReadOccurrenceFilter(absl::string_view text);

// Where an account goes on.
struct AccountPosition {
  std::string schedule;  // id; empty: before the first one
  bool ended = false;    // it goes on with the schedule after this one
  absl::Time time;       // else: after the first `passed` occurrences at this time
  uint64_t passed = 0;
};

struct AccountQuery {
  std::string tenant;
  std::string schedule;  // id; empty: all
  // Nominal times [begin, end).
  absl::Time begin, end;
  ListFilter filter;
  size_t limit = 0;  // occurrences that the answer shows, at least 1
  std::optional<AccountPosition> after;
  // Tenant.retention of any tenant; zero: it has none of its own, so the handlers' holds.
  std::function<absl::Duration(const std::string& tenant)> retention_of;
};

struct AccountPage {
  v1::ListOccurrencesResponse response;  // without a token
  std::optional<AccountPosition> next;   // nullopt: this is the end
};

// NOT_FOUND if the query names a schedule that does not exist.
void AccountOccurrences(MasterContext& context, AccountQuery query,
                        absl::AnyInvocable<void(absl::StatusOr<AccountPage>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_OCCURRENCE_ACCOUNT_H_
