// HostedGate: the gate of one process, by its flags (platform_gate.h), over the store that the
// process uses.
//
// Threads: one thread makes, starts and destroys it; the gate as PlatformGate.

#ifndef COMMON_AUTH_HOSTED_GATE_H_
#define COMMON_AUTH_HOSTED_GATE_H_

#include <memory>
#include <string>

#include "common/auth/audit_log.h"
#include "common/auth/authenticator.h"
#include "common/auth/key_directory.h"
#include "common/auth/platform_gate.h"
#include "common/auth/token_verifier.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/kv_store.h"
#include "common/runtime/runtime.h"

namespace escapement::auth {

class HostedGate {
 public:
  // `store`, `runtime` and `rules`, which may be null, outlive it. `instance` is the process's.
  HostedGate(const std::string& instance, kv::KvStore& store, Runtime& runtime, TenantRules* rules);
  ~HostedGate();

  void Start();
  // True once API keys can be checked.
  bool Ready() const { return keys_.loaded(); }

  CallGate& gate() { return gate_; }

 private:
  const std::shared_ptr<Executor> executor_;
  kv::KvClient client_;
  KeyDirectory keys_;
  AuditLog audit_;
  const std::unique_ptr<IssuerTokens> tokens_;  // null: no tokens are accepted
  const Authenticator authenticator_;
  PlatformGate gate_;
};

}  // namespace escapement::auth

#endif  // COMMON_AUTH_HOSTED_GATE_H_
