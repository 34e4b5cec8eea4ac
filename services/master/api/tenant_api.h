// TenantApi: what the master promises about tenants. The contract of each method is that of its RPC
// in escapement/v1/tenant_service.proto; errors carry the details of common/status/errors.h.
//
// Threads: methods may be called from any thread and never block; see common/rpc/done.h for the
// answers.

#ifndef SERVICES_MASTER_API_TENANT_API_H_
#define SERVICES_MASTER_API_TENANT_API_H_

#include "escapement/v1/tenant_service.pb.h"
#include "services/master/api/done.h"

namespace escapement::master {

class TenantApi {
 public:
  virtual ~TenantApi() = default;

  virtual void CreateTenant(v1::CreateTenantRequest request, Done<v1::Tenant> done) = 0;
  virtual void GetTenant(v1::GetTenantRequest request, Done<v1::Tenant> done) = 0;
  virtual void ListTenants(v1::ListTenantsRequest request, Done<v1::ListTenantsResponse> done) = 0;
  virtual void UpdateTenant(v1::UpdateTenantRequest request, Done<v1::Tenant> done) = 0;
  virtual void DeleteTenant(v1::DeleteTenantRequest request,
                            Done<google::protobuf::Empty> done) = 0;
  virtual void GetTenantUsage(v1::GetTenantUsageRequest request, Done<v1::TenantUsage> done) = 0;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_API_TENANT_API_H_
