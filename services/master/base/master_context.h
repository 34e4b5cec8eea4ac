// MasterContext: what the services of one master share.
//
// Threads: `layout` is written before `ready` turns true and never after; `mint` is written and
// read on the executor; the rest may be used from any thread.

#ifndef SERVICES_MASTER_BASE_MASTER_CONTEXT_H_
#define SERVICES_MASTER_BASE_MASTER_CONTEXT_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/base/uid.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/layout.h"
#include "common/runtime/runtime.h"
#include "common/tokens/token_batch.h"
#include "escapement/v1/tenant_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/metrics.h"
#include "services/master/base/target_secrets.h"

namespace escapement::master {

struct MasterContext {
  kv::KvClient& client;
  Runtime& runtime;
  std::shared_ptr<Executor> executor;  // answers run here
  MasterMetrics& metrics;
  const TargetSecrets& secrets;
  std::atomic<bool> ready = false;  // the layout is known, and the service does not stop
  kv::Layout layout = {};
  std::shared_ptr<const TokenMint> mint = nullptr;  // until the tokens' key has been read
  // Tenant.defaults; empty: the tenant has none.
  std::function<v1::TenantDefaults(const std::string& tenant)> defaults_of =
      [](const std::string&) { return v1::TenantDefaults(); };

  // A random uid, of which no other resource has the like.
  Uid NewUid() {
    const uint64_t high = runtime.random().Next();
    return Uid::FromHalves(high, runtime.random().Next());
  }

  // How many parts the counts of a run, or of all runs of a schedule, may have.
  uint32_t RunPartsMax() const { return layout.queue_shards + layout.policy_shards + 1; }

  // Answers on the executor.
  template <typename Response>
  void Refuse(absl::Status status, Done<Response> done) {
    executor->Post([status = std::move(status), done = std::move(done)]() mutable {
      done(std::move(status));
    });
  }
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_BASE_MASTER_CONTEXT_H_
