#include "tools/escctl/commands/quota_flags.h"

#include "absl/strings/str_cat.h"

namespace escapement::escctl {
namespace {

template <typename Number>
std::string Bound(Number value) {
  return value == 0 ? "-" : absl::StrCat(value);
}

}  // namespace

void QuotaFlags::Add(CLI::App& command) {
  const auto add = [&command](const char* flag, auto& value, const char* description) {
    command.add_option(flag, value, absl::StrCat(description, "; 0 = no bound"))
        ->check(CLI::NonNegativeNumber);
  };
  add("--max-schedules", schedules_, "schedules that exist");
  add("--max-policies", policies_, "throttling policies that exist");
  add("--max-pending-events", pending_events_, "one-off events that have not ended");
  add("--max-events-per-second", events_per_second_,
      "one-off events created per second, on each master");
  add("--max-events-per-run", events_per_run_, "events that one occurrence fires");
  add("--max-payload-bytes", payload_bytes_, "bytes of one payload");
  add("--max-requests-per-second", requests_per_second_, "calls per second, on each master");
}

void QuotaFlags::Apply(v1::Quotas& quotas, std::vector<std::string>& fields) const {
  const auto set = [&](const auto& value, const char* field, auto setter) {
    if (!value.has_value()) return;
    (quotas.*setter)(*value);
    fields.push_back(absl::StrCat("quotas.", field));
  };
  set(schedules_, "max_schedules", &v1::Quotas::set_max_schedules);
  set(policies_, "max_policies", &v1::Quotas::set_max_policies);
  set(pending_events_, "max_pending_events", &v1::Quotas::set_max_pending_events);
  set(events_per_second_, "max_events_per_second", &v1::Quotas::set_max_events_per_second);
  set(events_per_run_, "max_events_per_run", &v1::Quotas::set_max_events_per_run);
  set(payload_bytes_, "max_payload_bytes", &v1::Quotas::set_max_payload_bytes);
  set(requests_per_second_, "max_requests_per_second", &v1::Quotas::set_max_requests_per_second);
}

Row UsageHeader() { return {"QUOTA", "USED", "BOUND"}; }

std::vector<Row> UsageRows(const v1::TenantUsage& usage) {
  const v1::Quotas& quotas = usage.quotas();
  return {{"max-schedules", absl::StrCat(usage.schedule_count()), Bound(quotas.max_schedules())},
          {"max-policies", absl::StrCat(usage.policy_count()), Bound(quotas.max_policies())},
          {"max-pending-events", absl::StrCat(usage.pending_event_count()),
           Bound(quotas.max_pending_events())},
          {"max-events-per-second", "-", Bound(quotas.max_events_per_second())},
          {"max-events-per-run", "-", Bound(quotas.max_events_per_run())},
          {"max-payload-bytes", "-", Bound(quotas.max_payload_bytes())},
          {"max-requests-per-second", "-", Bound(quotas.max_requests_per_second())}};
}

}  // namespace escapement::escctl
