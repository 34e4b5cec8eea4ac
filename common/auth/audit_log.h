// The audit: who changed what. A change puts its entry into its own commit (AddAuditRow). AuditLog
// writes the entries of refused calls, and a log line for each audited call.
//
// Threads: AuditLog from any.

#ifndef COMMON_AUTH_AUDIT_LOG_H_
#define COMMON_AUTH_AUDIT_LOG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/rate_limit.h"
#include "common/kv/client/kv_client.h"
#include "common/rpc/call_gate.h"
#include "common/rpc/method_access.h"
#include "common/runtime/runtime.h"
#include "escapement/storage/v1/access_records.pb.h"

namespace escapement::auth {

// An entry that names the caller and its call; time and result are unset.
storage::v1::AuditRecord AuditRecordOf(const Caller& caller, absl::string_view method,
                                       absl::string_view resource, absl::string_view request_id);

// Adds the row to `group`. `tenant` may be kAllTenants. Equal records of one microsecond are one
// row unless their nonces differ.
void AddAuditRow(absl::string_view tenant, storage::v1::AuditRecord record, absl::Time now,
                 uint64_t nonce, kv::Group& group);

class AuditLog {
 public:
  // Refused calls that wait to be written. Further ones have only their log line.
  static constexpr size_t kWaitingMax = 10'000;
  // Rows of calls without valid credentials: so many at once, and then one each second. Further
  // calls have only their log line. So nobody without credentials can fill the disk.
  static constexpr uint64_t kUnknownRowsMax = 100;

  // `client` must outlive it. Stop the executor before it is destroyed.
  AuditLog(kv::KvClient& client, std::shared_ptr<Executor> executor)
      : client_(client), executor_(std::move(executor)) {}

  // Writes the log line, and for an error the row, in the caller's tenant or, if the resource has
  // one that the caller may see, in that. A caller without a role is unknown.
  void NoteAnswer(const MethodAccess& method, const Caller& caller, const std::string& resource,
                  const std::string& request_id, const absl::Status& status);

 private:
  struct Waiting {
    std::string tenant;
    storage::v1::AuditRecord record;
  };
  void Write();

  kv::KvClient& client_;
  const std::shared_ptr<Executor> executor_;
  absl::Mutex mutex_;
  std::vector<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t rows_ ABSL_GUARDED_BY(mutex_) = 0;  // that have been written; the next one's nonce
  // Its times are those since the clock's start, as if that were the Unix epoch.
  RateLimit unknown_rows_ ABSL_GUARDED_BY(mutex_) = RateLimit(1, kUnknownRowsMax);
};

}  // namespace escapement::auth

#endif  // COMMON_AUTH_AUDIT_LOG_H_
