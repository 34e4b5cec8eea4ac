// MasterTenantRules: what the master asks of a tenant before each request. TenantDirectory: the
// tenants of a store. CountRows: counts a tenant's rows.

#ifndef SERVICES_MASTER_TENANTS_TENANT_RULES_H_
#define SERVICES_MASTER_TENANTS_TENANT_RULES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/auth/platform_gate.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/client/range_mirror.h"
#include "common/runtime/runtime.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

// TenantDirectory: the tenants of a store, current to within milliseconds (range_mirror.h). The
// home cell has all tenants, and the other cells have copies of their own (tenant_copies.h).
//
// Threads: OnChange and Start on the executor; the rest from any. Stop the executor before it is
// destroyed.
class TenantDirectory {
 public:
  using Record = std::shared_ptr<const storage::v1::TenantRecord>;
  struct Row {
    Record record;
    std::string bytes;  // as it is stored
  };
  using Rows = std::map<std::string, Row>;

  // `client` must outlive it.
  TenantDirectory(kv::KvClient& client, std::shared_ptr<Executor> executor);

  void Start() { mirror_.Start(); }
  // `on_change` is called on the executor after tenants have changed.
  void OnChange(std::function<void()> on_change) { on_change_.push_back(std::move(on_change)); }

  // True once the tenants have been read.
  bool loaded() const;
  // Null: no such tenant.
  Record Find(const std::string& tenant) const;
  // How long its outcomes are kept; zero: as long as the platform's.
  absl::Duration RetentionOf(const std::string& tenant) const;
  // None if there is no such tenant.
  v1::TenantDefaults DefaultsOf(const std::string& tenant) const;
  // True if the tenant has at least this version here. Version 0: it does not exist.
  bool Shows(const std::string& tenant, uint64_t version) const;
  // In the order of their ids.
  std::vector<Record> All() const;
  // By tenant: all that can be read, those of deleted tenants included. Null until they are read.
  std::shared_ptr<const Rows> AllRows() const;

 private:
  using Tenants = std::map<std::string, Record>;
  void Take(const kv::RangeMirror::Rows& rows);

  kv::RangeMirror mirror_;
  std::vector<std::function<void()>> on_change_;  // on the executor
  mutable absl::Mutex mutex_;
  std::shared_ptr<const Tenants> tenants_ ABSL_GUARDED_BY(mutex_);  // null until they are read
  std::shared_ptr<const Rows> rows_ ABSL_GUARDED_BY(mutex_);        // null until they are read
};

// Counts the rows of a tenant.
//
// Threads: callbacks run on the context's executor.

enum class CountedRows { kSchedules, kPolicies, kPendingEvents };

// Counting stops at `count_max`, and for pending events after kCountRowsMax rows of all tenants.
void CountRows(MasterContext& context, CountedRows which, const std::string& tenant,
               int64_t count_max, absl::AnyInvocable<void(absl::StatusOr<int64_t>)> done);

// MasterTenantRules: the TenantRules of the master. The tenant must exist, must not be suspended,
// and must stay within its quotas. The directory is the home cell's; rows are counted in the cells
// of the tenants.
//
// Schedules, policies and pending events are counted in the background, so a check never waits: the
// count is at most some seconds old, plus what this master has let pass since. A call that is let
// pass may be refused later, or be a repetition: so schedules and policies are counted again within
// a second of it.
//
// Threads: Check from any; the rest on the context's executor.
class MasterTenantRules final : public auth::TenantRules {
 public:
  // The context of a tenant's cell; null: the cell cannot be reached now.
  using ContextOf = std::function<MasterContext*(const std::string& tenant)>;

  // Both outlive it; the executor is stopped before it is destroyed.
  MasterTenantRules(MasterContext& context, TenantDirectory& directory)
      : context_(context), directory_(directory) {}

  // Before Start. The default: all tenants are in the home cell.
  void CountIn(ContextOf context_of) { context_of_ = std::move(context_of); }
  // Before the directory starts.
  void Start();

  absl::Status Check(const MethodAccess& method, const Caller& caller, const std::string& tenant,
                     const google::protobuf::Message& request) override;

 private:
  // A budget of calls or events: one second's worth may be spent at once.
  struct Budget {
    double left = 0;
    absl::Duration at = -absl::InfiniteDuration();  // when `left` was computed
  };
  struct Count {
    bool known = false;
    bool counting = false;
    int64_t rows = 0;                               // at the last count
    int64_t let_pass = 0;                           // since the last count began
    absl::Duration next = absl::ZeroDuration();     // when to count again
    absl::Duration soonest = absl::ZeroDuration();  // the earliest time that the cost allows
  };
  struct Usage {
    Budget requests, events;
    std::map<CountedRows, Count> counts;
  };

  absl::Status Spend(Budget& budget, double per_second, double amount, const std::string& tenant,
                     const char* quota) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckCount(Usage& usage, CountedRows which, int64_t max, int64_t added,
                          const std::string& tenant, const char* quota)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckQuotas(const storage::v1::TenantRecord& record,
                           const google::protobuf::Message& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Tick();
  void CountAll();
  void CountIfDue(const std::string& tenant, CountedRows which, int64_t max);
  void OnCounted(const std::string& tenant, CountedRows which, absl::Duration began,
                 const absl::StatusOr<int64_t>& rows);

  MasterContext& context_;
  TenantDirectory& directory_;
  ContextOf context_of_ = [this](const std::string&) { return &context_; };
  absl::Mutex mutex_;
  std::map<std::string, Usage> usages_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TENANTS_TENANT_RULES_H_
