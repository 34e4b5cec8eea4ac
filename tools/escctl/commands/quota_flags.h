// Flags for the quotas of a tenant.

#ifndef TOOLS_ESCCTL_COMMANDS_QUOTA_FLAGS_H_
#define TOOLS_ESCCTL_COMMANDS_QUOTA_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "escapement/v1/tenant_service.pb.h"
#include "tools/escctl/base/output.h"

namespace escapement::escctl {

class QuotaFlags {
 public:
  void Add(CLI::App& command);

  // Writes the given flags into the quotas and appends the mask paths that it set, such as
  // "quotas.max_schedules".
  void Apply(v1::Quotas& quotas, std::vector<std::string>& fields) const;

 private:
  std::optional<int64_t> schedules_;
  std::optional<int64_t> policies_;
  std::optional<int64_t> pending_events_;
  std::optional<double> events_per_second_;
  std::optional<int64_t> events_per_run_;
  std::optional<int64_t> payload_bytes_;
  std::optional<double> requests_per_second_;
};

Row UsageHeader();
// One row for each quota, called as its flag.
std::vector<Row> UsageRows(const v1::TenantUsage& usage);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_COMMANDS_QUOTA_FLAGS_H_
