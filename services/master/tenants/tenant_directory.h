// TenantDirectory: the tenants of the store, current to within milliseconds (range_mirror.h).
//
// Threads: Find from any; Start on the executor. Stop the executor before it is destroyed.

#ifndef SERVICES_MASTER_TENANTS_TENANT_DIRECTORY_H_
#define SERVICES_MASTER_TENANTS_TENANT_DIRECTORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/client/range_mirror.h"
#include "common/runtime/runtime.h"
#include "escapement/storage/v1/access_records.pb.h"

namespace escapement::master {

class TenantDirectory {
 public:
  using Record = std::shared_ptr<const storage::v1::TenantRecord>;

  // `client` must outlive it.
  TenantDirectory(kv::KvClient& client, std::shared_ptr<Executor> executor);

  void Start() { mirror_.Start(); }

  // True once the tenants have been read.
  bool loaded() const;
  // Null: no such tenant.
  Record Find(const std::string& tenant) const;
  // How long its outcomes are kept; zero: as long as the platform's.
  absl::Duration RetentionOf(const std::string& tenant) const;
  // True if the tenant has at least this version here. Version 0: it does not exist.
  bool Shows(const std::string& tenant, uint64_t version) const;
  // In the order of their ids.
  std::vector<Record> All() const;

 private:
  using Tenants = std::map<std::string, Record>;
  void Take(const kv::RangeMirror::Rows& rows);

  kv::RangeMirror mirror_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const Tenants> tenants_ ABSL_GUARDED_BY(mutex_);  // null until they are read
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TENANTS_TENANT_DIRECTORY_H_
