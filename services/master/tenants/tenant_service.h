// TenantService: tenants, their quotas and what they use.
//
// Threads: as TenantApi.

#ifndef SERVICES_MASTER_TENANTS_TENANT_SERVICE_H_
#define SERVICES_MASTER_TENANTS_TENANT_SERVICE_H_

#include "services/master/api/tenant_api.h"
#include "services/master/master_context.h"

namespace escapement::master {

class TenantService final : public TenantApi {
 public:
  // `context` outlives the service.
  explicit TenantService(MasterContext& context) : context_(context) {}

  void CreateTenant(v1::CreateTenantRequest request, Done<v1::Tenant> done) override;
  void GetTenant(v1::GetTenantRequest request, Done<v1::Tenant> done) override;
  void ListTenants(v1::ListTenantsRequest request, Done<v1::ListTenantsResponse> done) override;
  void UpdateTenant(v1::UpdateTenantRequest request, Done<v1::Tenant> done) override;
  void DeleteTenant(v1::DeleteTenantRequest request, Done<google::protobuf::Empty> done) override;
  void GetTenantUsage(v1::GetTenantUsageRequest request, Done<v1::TenantUsage> done) override;

 private:
  MasterContext& context_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TENANTS_TENANT_SERVICE_H_
