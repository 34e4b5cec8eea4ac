// The `filter` of ListAuditEntries: conditions on principal, method, resource, result and time.
//
// Pure.

#ifndef SERVICES_MASTER_AUDIT_AUDIT_SERVICE_H_
#define SERVICES_MASTER_AUDIT_AUDIT_SERVICE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/filter/filter.h"
#include "escapement/v1/audit_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/sweeps/sweep_loop.h"

namespace escapement::master {

class AuditFilter {
 public:
  // Every entry.
  AuditFilter() = default;
  // INVALID_ARGUMENT (filter).
  static absl::StatusOr<AuditFilter> Read(absl::string_view text);

  bool Matches(const v1::AuditEntry& entry) const;

  // Every entry that matches has its time in [begin, end).
  absl::Time begin() const { return times_.begin; }
  absl::Time end() const { return times_.end; }

 private:
  Filter filter_;
  FilterTimes times_;
};

// AuditService: reads the audit. common/auth/audit_log.h writes it.
//
// Threads: as AuditApi.

class AuditService final : public AuditApi {
 public:
  // `context` outlives the service.
  explicit AuditService(MasterContext& context) : context_(context) {}

  void ListAuditEntries(v1::ListAuditEntriesRequest request,
                        Done<v1::ListAuditEntriesResponse> done) override;

 private:
  MasterContext& context_;
};

// AccessSweep: audit entries that are older than their retention, and keys that were revoked or
// have expired as long ago, except those from a file (key_service.h); for a SweepLoop.

std::vector<SweptRows> AccessSweep();

}  // namespace escapement::master

#endif  // SERVICES_MASTER_AUDIT_AUDIT_SERVICE_H_
