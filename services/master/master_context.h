// MasterContext: what the services of one master share.
//
// Threads: `layout` is written before `ready` turns true and never after; `mint` is written and
// read on the executor; the rest may be used from any thread.

#ifndef SERVICES_MASTER_MASTER_CONTEXT_H_
#define SERVICES_MASTER_MASTER_CONTEXT_H_

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/auth/api_key.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/layout.h"
#include "common/runtime/runtime.h"
#include "common/tokens/token_handle.h"
#include "services/master/api/done.h"
#include "services/master/metrics.h"

namespace escapement::master {

struct MasterContext {
  kv::KvClient& client;
  Runtime& runtime;
  std::shared_ptr<Executor> executor;  // answers run here
  MasterMetrics& metrics;
  std::atomic<bool> ready = false;  // the layout is known, and the service does not stop
  kv::Layout layout = {};
  std::shared_ptr<const TokenMint> mint = nullptr;  // until the tokens' key has been read
  // Makes a key from random bits of the machine; tests give their own.
  std::function<auth::ApiKeyParts()> new_api_key = auth::NewApiKey;

  // Answers on the executor.
  template <typename Response>
  void Refuse(absl::Status status, Done<Response> done) {
    executor->Post([status = std::move(status), done = std::move(done)]() mutable {
      done(std::move(status));
    });
  }
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_MASTER_CONTEXT_H_
