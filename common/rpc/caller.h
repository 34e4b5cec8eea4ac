// Caller: who makes a call, and what it may do.

#ifndef COMMON_RPC_CALLER_H_
#define COMMON_RPC_CALLER_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "escapement/v1/access.pb.h"

namespace escapement {

struct Caller {
  std::string principal;  // as AuditEntry.principal
  v1::Access::Role role = v1::Access::ROLE_UNSPECIFIED;
  std::string tenant = {};  // id of the caller's one tenant; empty: all tenants
  std::string source = {};  // ip:port; empty: unknown
  // From this moment on the credential is not valid, by the store's time. API keys leave it: their
  // record says it (key_directory.h).
  absl::Time expire_time = absl::InfiniteFuture();

  // True if the caller may know of this tenant. "-" stands for all tenants.
  bool MaySee(const std::string& tenant_id) const { return tenant.empty() || tenant == tenant_id; }
};

// The caller of a server that asks for no credentials: it may do everything.
inline const std::shared_ptr<const Caller>& AnonymousCaller() {
  static const auto* const caller = new std::shared_ptr<const Caller>(
      std::make_shared<Caller>(Caller{"anonymous", v1::Access::SERVICE}));
  return *caller;
}

}  // namespace escapement

#endif  // COMMON_RPC_CALLER_H_
