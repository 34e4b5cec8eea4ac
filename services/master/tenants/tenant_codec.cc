#include "services/master/tenants/tenant_codec.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"
#include "escapement/storage/v1/records.pb.h"
#include "google/protobuf/io/coded_stream.h"
#include "services/master/base/limits.h"
#include "services/master/cells/cell_directory.h"
#include "services/master/codec/delivery_codec.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

void CheckCount(const char* field, int64_t value, FieldViolations& violations) {
  if (value < 0)
    violations.Add(absl::StrCat("tenant.quotas.", field), "must be at least 0 (0: no bound)");
}

void CheckRate(const char* field, double value, FieldViolations& violations) {
  // Written so that NaN is refused.
  if (!(value >= 0 && value <= kTenantRateMax)) {
    violations.Add(absl::StrCat("tenant.quotas.", field),
                   absl::StrCat("must be from 0 (no bound) to ", kTenantRateMax));
  }
}

void ReadRetention(const v1::Tenant& tenant, storage::v1::TenantRecord& record,
                   FieldViolations& violations) {
  if (!tenant.has_retention()) return;
  const std::optional<absl::Duration> retention = ToDuration(tenant.retention());
  if (!retention.has_value() || *retention < kRetentionMin || *retention > kRetentionMax) {
    violations.Add("tenant.retention", "must be from 1 day (86400s) to 366 days (31622400s)");
    return;
  }
  record.set_retention_micros(MicrosUp(*retention));
}

void ReadDefaults(const v1::TenantDefaults& defaults, storage::v1::TenantRecord& record,
                  FieldViolations& violations) {
  const std::string field = "tenant.defaults";
  CheckDeliveryDefaults(defaults, field, violations);
  v1::Event event;
  *event.mutable_limits() = defaults.limits();
  storage::v1::ThrottleRecord throttle;
  ReadLimits(NamedLimits(event), field, kDefaultTenant, throttle, violations);  // any tenant's
  for (int i = 0; i < defaults.limits_size(); ++i) {
    if (absl::StrContains(defaults.limits(i).policy(), '/'))
      violations.Add(absl::StrCat(field, ".limits[", i, "].policy"), "must be an id");
  }
  if (!v1::Completion_IsValid(defaults.completion()) ||
      (defaults.limits().empty() && defaults.completion() != v1::COMPLETION_UNSPECIFIED)) {
    violations.Add(absl::StrCat(field, ".completion"),
                   "must be ON_DELIVERY or ON_RELEASE, and needs limits");
  }
  record.set_defaults(defaults.SerializeAsString());
}

}  // namespace

bool IsTenantId(absl::string_view id) {
  if (id.empty() || id.size() > kResourceIdBytesMax || id[0] == '-') return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-';
  });
}

absl::StatusOr<storage::v1::TenantRecord> ReadTenant(const v1::Tenant& tenant) {
  FieldViolations violations;
  storage::v1::TenantRecord record;
  CheckShownText("tenant.display_name", tenant.display_name(), kDisplayNameCharsMax, violations);
  record.set_display_name(tenant.display_name());
  if (!v1::Tenant::State_IsValid(tenant.state()))
    violations.Add("tenant.state", "must be ACTIVE or SUSPENDED");
  record.set_suspended(tenant.state() == v1::Tenant::SUSPENDED);
  const v1::Quotas& quotas = tenant.quotas();
  CheckCount("max_schedules", quotas.max_schedules(), violations);
  CheckCount("max_policies", quotas.max_policies(), violations);
  CheckCount("max_pending_events", quotas.max_pending_events(), violations);
  CheckRate("max_events_per_second", quotas.max_events_per_second(), violations);
  CheckCount("max_events_per_run", quotas.max_events_per_run(), violations);
  CheckCount("max_payload_bytes", quotas.max_payload_bytes(), violations);
  CheckRate("max_requests_per_second", quotas.max_requests_per_second(), violations);
  ReadRetention(tenant, record, violations);
  if (tenant.has_defaults()) ReadDefaults(tenant.defaults(), record, violations);
  if (!violations.empty()) return violations.ToStatus();
  record.set_max_schedules(quotas.max_schedules());
  record.set_max_policies(quotas.max_policies());
  record.set_max_pending_events(quotas.max_pending_events());
  record.set_max_events_per_second(quotas.max_events_per_second());
  record.set_max_events_per_run(quotas.max_events_per_run());
  record.set_max_payload_bytes(quotas.max_payload_bytes());
  record.set_max_requests_per_second(quotas.max_requests_per_second());
  return record;
}

std::string NameOfTenant(absl::string_view tenant) { return absl::StrCat("tenants/", tenant); }

v1::Tenant ShowTenant(const storage::v1::TenantRecord& record) {
  v1::Tenant tenant;
  tenant.set_name(NameOfTenant(record.tenant()));
  tenant.set_display_name(record.display_name());
  tenant.set_state(record.suspended() ? v1::Tenant::SUSPENDED : v1::Tenant::ACTIVE);
  *tenant.mutable_quotas() = ShowQuotas(record);
  if (record.retention_micros() != 0)
    SetDuration(record.retention_micros(), *tenant.mutable_retention());
  if (!record.defaults().empty()) tenant.mutable_defaults()->ParseFromString(record.defaults());
  tenant.set_cell(NameOfCell(record.cell()));
  tenant.set_version(static_cast<int64_t>(record.version()));
  tenant.set_etag(TenantEtag(record));
  if (record.version() > 0) {
    SetTimestamp(record.create_time_micros(), *tenant.mutable_create_time());
    SetTimestamp(record.update_time_micros(), *tenant.mutable_update_time());
  }
  return tenant;
}

v1::Quotas ShowQuotas(const storage::v1::TenantRecord& record) {
  v1::Quotas quotas;
  quotas.set_max_schedules(record.max_schedules());
  quotas.set_max_policies(record.max_policies());
  quotas.set_max_pending_events(record.max_pending_events());
  quotas.set_max_events_per_second(record.max_events_per_second());
  quotas.set_max_events_per_run(record.max_events_per_run());
  quotas.set_max_payload_bytes(record.max_payload_bytes());
  quotas.set_max_requests_per_second(record.max_requests_per_second());
  return quotas;
}

std::string TenantEtag(const storage::v1::TenantRecord& record) {
  return absl::StrCat("\"", record.version(), "-", record.create_time_micros(), "\"");
}

absl::string_view LeadingTenant(absl::string_view record) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(record.data()),
                                            static_cast<int>(record.size()));
  // A length-delimited field; protobuf.dev, "Encoding".
  constexpr uint32_t kTenantTag = storage::v1::EventRecord::kTenantFieldNumber << 3 | 2;
  uint32_t size = 0;
  if (in.ReadTag() != kTenantTag || !in.ReadVarint32(&size)) return {};
  const auto begin = static_cast<size_t>(in.CurrentPosition());
  return size <= record.size() - begin ? record.substr(begin, size) : absl::string_view();
}

storage::v1::TenantRecord DefaultTenantRecord() {
  storage::v1::TenantRecord record;
  record.set_tenant(std::string(kDefaultTenant));
  return record;
}

}  // namespace escapement::master
