#include "common/auth/audit_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"

namespace escapement::auth {
namespace {

constexpr size_t kRowsPerCommit = 1000;

// The tenant whose admins may read of this call.
std::string TenantOfEntry(const Caller& caller, const std::string& resource) {
  const std::string tenant = TenantOf(resource);
  if (!tenant.empty() && caller.MaySee(tenant)) return tenant;
  return caller.tenant.empty() ? std::string(kAllTenants) : caller.tenant;
}

}  // namespace

storage::v1::AuditRecord AuditRecordOf(const Caller& caller, absl::string_view method,
                                       absl::string_view resource, absl::string_view request_id) {
  storage::v1::AuditRecord record;
  record.set_principal(caller.principal);
  record.set_role(caller.role);
  record.set_source(caller.source);
  record.set_method(std::string(method));
  // Callers choose these texts.
  record.set_resource(ErrorText(resource));
  record.set_request_id(ErrorText(request_id));
  return record;
}

void AddAuditRow(absl::string_view tenant, storage::v1::AuditRecord record, absl::Time now,
                 uint64_t nonce, kv::Group& group) {
  record.set_time_micros(ToMicros(now));
  std::string value = record.SerializeAsString();
  const AuditPlace place{now, StableHash128(absl::StrCat(value, nonce))};
  group.mutations.push_back(
      {.cf = kv::ColumnFamily::kAudit, .key = AuditKey(tenant, place), .value = std::move(value)});
}

void AuditLog::NoteAnswer(const MethodAccess& method, const Caller& caller,
                          const std::string& resource, const std::string& request_id,
                          const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  Log(LogLevel::kInfo, "audit", status.ok() ? "done" : "refused",
      {{"principal", caller.principal},
       {"role", v1::Access::Role_Name(caller.role)},
       {"source", caller.source},
       {"method", method.name()},
       {"resource", ErrorText(resource)},
       {"request_id", ErrorText(request_id)},
       {"result", absl::StatusCodeToString(status.code())},
       {"reason", reason}});
  if (status.ok()) return;  // the change has written its own row
  storage::v1::AuditRecord record = AuditRecordOf(caller, method.name(), resource, request_id);
  record.set_code(static_cast<int>(status.code()));
  record.set_reason(reason);
  absl::MutexLock lock(&mutex_);
  if (waiting_.size() >= kWaitingMax) return;
  if (caller.role == v1::Access::ROLE_UNSPECIFIED) {
    const absl::Time now = absl::UnixEpoch() + client_.runtime().clock().Elapsed();
    if (unknown_rows_.Allowed(now) == 0) return;
    unknown_rows_.Take(1, now);
  }
  waiting_.push_back({TenantOfEntry(caller, resource), std::move(record)});
  if (!std::exchange(writing_, true)) executor_->Post([this] { Write(); });
}

void AuditLog::Write() {
  std::vector<Waiting> rows;
  uint64_t nonce = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.empty()) {
      writing_ = false;
      return;
    }
    const size_t count = std::min(waiting_.size(), kRowsPerCommit);
    nonce = rows_;
    rows_ += count;
    rows.assign(std::make_move_iterator(waiting_.begin()),
                std::make_move_iterator(waiting_.begin() + static_cast<ptrdiff_t>(count)));
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(count));
  }
  kv::Commit commit;
  kv::Group& group = commit.groups.emplace_back();
  for (Waiting& row : rows)
    AddAuditRow(row.tenant, std::move(row.record), client_.NowLow(), nonce++, group);
  client_.CommitAsync(std::move(commit), executor_,
                      [this](const absl::StatusOr<kv::CommitResult>&) { Write(); });
}

}  // namespace escapement::auth
