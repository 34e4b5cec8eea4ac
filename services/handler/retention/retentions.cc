#include "services/handler/retention/retentions.h"

#include <algorithm>

#include "escapement/storage/v1/access_records.pb.h"

namespace escapement::handler {

void Retentions::Add(const std::string& value) {
  storage::v1::TenantRecord tenant;
  if (!tenant.ParseFromString(value) || tenant.retention_micros() <= 0) return;
  const absl::Duration retention = absl::Microseconds(tenant.retention_micros());
  of_tenant_[tenant.tenant()] = retention;
  shortest_ = std::min(shortest_, retention);
}

}  // namespace escapement::handler
