// Tenants: public messages ↔ records, with validation. Pure.

#ifndef SERVICES_MASTER_TENANTS_TENANT_CODEC_H_
#define SERVICES_MASTER_TENANTS_TENANT_CODEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "escapement/v1/tenant_service.pb.h"

namespace escapement::master {

// 1–63 of a–z, 0–9 and '-', beginning with a letter or digit.
bool IsTenantId(absl::string_view id);

// Reads display_name, state, quotas and retention. INVALID_ARGUMENT with every field that is wrong
// ("tenant.quotas.max_schedules").
absl::StatusOr<storage::v1::TenantRecord> ReadTenant(const v1::Tenant& tenant);

std::string NameOfTenant(absl::string_view tenant);  // tenants/{tenant}

v1::Tenant ShowTenant(const storage::v1::TenantRecord& record);
v1::Quotas ShowQuotas(const storage::v1::TenantRecord& record);

// Quoted: version and creation, since a tenant that is made again counts from 1 again.
std::string TenantEtag(const storage::v1::TenantRecord& record);

// The tenant of a record that has it as its first field, such as an EventRecord or a DoneRecord.
// Reads no further. Empty: there is none.
absl::string_view LeadingTenant(absl::string_view record);

// "default" before its first change.
storage::v1::TenantRecord DefaultTenantRecord();

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TENANTS_TENANT_CODEC_H_
