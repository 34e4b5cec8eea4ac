// The `filter` of ListAuditEntries: conditions on principal, method, resource, result and time.
//
// Pure.

#ifndef SERVICES_MASTER_AUDIT_AUDIT_FILTER_H_
#define SERVICES_MASTER_AUDIT_AUDIT_FILTER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/filter/filter.h"
#include "escapement/v1/audit_service.pb.h"

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

}  // namespace escapement::master

#endif  // SERVICES_MASTER_AUDIT_AUDIT_FILTER_H_
