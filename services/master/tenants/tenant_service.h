// TenantService: tenants, their quotas and what they use. TenantSweep: deletes what deleted tenants
// have left.
//
// Threads: as master_apis.h.

#ifndef SERVICES_MASTER_TENANTS_TENANT_SERVICE_H_
#define SERVICES_MASTER_TENANTS_TENANT_SERVICE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "escapement/v1/tenant_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/cells/cell_directory.h"
#include "services/master/requests/record_transaction.h"
#include "services/master/sweeps/sweep_loop.h"
#include "services/master/tenants/tenant_rules.h"

namespace escapement::master {

class TenantService {
 public:
  // It asks the cells of tenants, other than its own. The functions are called on the context's
  // executor.
  struct Elsewhere {
    // True if the tenant's cell shows at least this version of it; 0: that it is deleted.
    std::function<bool(const std::string& tenant, uint64_t version)> shows =
        [](const std::string&, uint64_t) { return true; };
    // True if calls for tenants of the cell are served now.
    std::function<bool(uint32_t cell)> served = [](uint32_t) { return true; };
    // RetireTenant in the tenant's cell. UNAVAILABLE: it cannot be reached. `done` may run on any
    // thread.
    std::function<void(const storage::v1::TenantRecord& record, bool validate_only,
                       absl::AnyInvocable<void(absl::Status)> done)>
        retire;
  };

  // All outlive the service.
  TenantService(MasterContext& context, const TenantDirectory& directory,
                const CellDirectory& cells)
      : context_(context), directory_(directory), cells_(cells) {}

  // Before the first call.
  void SetElsewhere(Elsewhere elsewhere) { elsewhere_ = std::move(elsewhere); }
  // Counts the tenants that exist.
  TenantCounts Counts() const;

  void CreateTenant(v1::CreateTenantRequest request, Done<v1::Tenant> done);
  void GetTenant(v1::GetTenantRequest request, Done<v1::Tenant> done);
  void ListTenants(v1::ListTenantsRequest request, Done<v1::ListTenantsResponse> done);
  void UpdateTenant(v1::UpdateTenantRequest request, Done<v1::Tenant> done);
  void DeleteTenant(v1::DeleteTenantRequest request, Done<google::protobuf::Empty> done);
  void GetTenantUsage(v1::GetTenantUsageRequest request, Done<v1::TenantUsage> done);

 private:
  // The cell of a new tenant that names none. Errors as of CreateTenant.
  absl::StatusOr<uint32_t> CellOfNew() const;
  // Deletes the home cell's rows of the tenant. `retired`: as in DecideDelete.
  void DeleteHere(const std::string& tenant, uint64_t retired, v1::DeleteTenantRequest request,
                  Done<google::protobuf::Empty> done);
  // Makes the change and answers it with AnswerWhenKnown.
  void Change(RecordChange change, Done<v1::Tenant> done);
  // Answers once the gate of this master knows the tenant's version; 0: that it is deleted. So the
  // caller's next call meets the tenant as this one has left it.
  template <typename Response>
  void AnswerWhenKnown(std::string tenant, uint64_t version, Response response, Done<Response> done,
                       absl::Duration waited = absl::ZeroDuration());

  MasterContext& context_;
  const TenantDirectory& directory_;
  const CellDirectory& cells_;
  Elsewhere elsewhere_;
};

// Marks the tenant as deleted in its cell, unless it has schedules or policies there, or exists
// there in a later version. `record` is that of the home cell, `cell` the context of the tenant's.
// `validate_only`: decides and answers, and writes nothing.
void RetireTenant(MasterContext& cell, storage::v1::TenantRecord record, bool validate_only,
                  absl::AnyInvocable<void(absl::Status)> done);

// One sweep has these steps:
// 1. It finds the deleted tenants. One whose pending events are due later is left until then.
// 2. It looks for rows of these tenants that others still work on: pending events, claims, grants.
//    They end in their own way.
// 3. Once a tenant has none of them, it deletes all other rows that name the tenant, in every
//    column family.
// 4. A tenant without any row in two sweeps is noted as swept: its id may be used again.
//
// Each deletion has the condition that the tenant's record is as it was read, so that a slow master
// deletes nothing of the next tenant with this id.
std::vector<SweptRows> TenantSweep();

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TENANTS_TENANT_SERVICE_H_
