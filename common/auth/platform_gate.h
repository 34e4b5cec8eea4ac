// PlatformGate: the gate of the platform's servers: who calls (Authenticator), whether the role is
// enough, whether the caller may know of the tenant, and what the process itself asks of a request
// (TenantRules). It audits what is refused.
//
// Threads: any.

#ifndef COMMON_AUTH_PLATFORM_GATE_H_
#define COMMON_AUTH_PLATFORM_GATE_H_

#include <memory>
#include <string>

#include "common/auth/audit_log.h"
#include "common/auth/authenticator.h"
#include "common/rpc/call_gate.h"

namespace escapement::auth {

// The conditions of a process for each request that names a tenant. They come after the caller has
// been admitted.
class TenantRules {
 public:
  virtual ~TenantRules() = default;
  // NOT_FOUND: no such tenant. FAILED_PRECONDITION: it is suspended. RESOURCE_EXHAUSTED: a quota.
  virtual absl::Status Check(const MethodAccess& method, const std::string& tenant,
                             const google::protobuf::Message& request) = 0;
};

class PlatformGate final : public CallGate {
 public:
  // All outlive it. `rules` may be null.
  PlatformGate(const Authenticator& authenticator, TenantRules* rules, AuditLog& audit)
      : authenticator_(authenticator), rules_(rules), audit_(audit) {}

  absl::StatusOr<std::shared_ptr<const Caller>> Admit(const MethodAccess& method,
                                                      const CallHead& head) override;
  absl::Status CheckRequest(const MethodAccess& method, const Caller& caller,
                            const std::string& resource,
                            const google::protobuf::Message& request) override;
  void OnAnswered(const MethodAccess& method, const Caller& caller, const std::string& resource,
                  const std::string& request_id, const absl::Status& status) override;

 private:
  const Authenticator& authenticator_;
  TenantRules* const rules_;
  AuditLog& audit_;
};

}  // namespace escapement::auth

#endif  // COMMON_AUTH_PLATFORM_GATE_H_
