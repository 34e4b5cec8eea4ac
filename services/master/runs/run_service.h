// RunService: what became of the occurrences of schedules.
//
// Threads: as RunApi. No state.

#ifndef SERVICES_MASTER_RUNS_RUN_SERVICE_H_
#define SERVICES_MASTER_RUNS_RUN_SERVICE_H_

#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/storage/occurrence_rows.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/resource_name.h"
#include "services/master/runs/single_event.h"
#include "services/master/tenants/tenant_rules.h"

namespace escapement::master {

class RunService final : public RunApi {
 public:
  // `context` and `tenants` outlive the service. `run_list_days`: how far back ListRuns goes at
  // least. It goes further back for tenants with a longer retention.
  RunService(MasterContext& context, const TenantDirectory& tenants, int run_list_days)
      : context_(context), tenants_(tenants), run_list_days_(run_list_days) {}

  void ListRuns(v1::ListRunsRequest request, Done<v1::ListRunsResponse> done) override;
  void GetRun(v1::GetRunRequest request, Done<v1::Run> done) override;
  void ListRunEvents(v1::ListRunEventsRequest request,
                     Done<v1::ListRunEventsResponse> done) override;
  void CancelRun(v1::CancelRunRequest request, Done<v1::Run> done) override;
  void ListOccurrences(v1::ListOccurrencesRequest request,
                       Done<v1::ListOccurrencesResponse> done) override;

 private:
  absl::Duration ListedFor(const std::string& tenant) const;

  MasterContext& context_;
  const TenantDirectory& tenants_;
  const int run_list_days_;
};

// Reads one run.
//
// Threads: the callback runs on the context's executor.

struct StoredRun {
  OccurrenceSource source;  // the schedule's present definition
  std::optional<storage::v1::RunRecord>
      record;                         // if the run has many events, or its schedule has on_complete
  storage::v1::RunPartRecord counts;  // with a record: the sum of the parts
  SingleEvent single;                 // without a record
};

// NOT_FOUND if there is no such schedule or run.
void ReadRun(MasterContext& context, RunName name,
             absl::AnyInvocable<void(absl::StatusOr<StoredRun>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_RUN_SERVICE_H_
