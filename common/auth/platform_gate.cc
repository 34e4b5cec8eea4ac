#include "common/auth/platform_gate.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/errors.h"

namespace escapement::auth {
namespace {

absl::Status RoleTooLow(const MethodAccess& method, const Caller& caller) {
  const std::string needed = v1::Access::Role_Name(method.access().role());
  const std::string own = v1::Access::Role_Name(caller.role);
  return MakeError(
      absl::StatusCode::kPermissionDenied, "ROLE_TOO_LOW",
      absl::StrCat(method.name(), " needs the role ", needed, "; the caller has ", own),
      {{"needed", needed}, {"role", own}});
}

absl::Status NeedsAllTenants(const MethodAccess& method) {
  return MakeError(absl::StatusCode::kPermissionDenied, "NEEDS_ALL_TENANTS",
                   absl::StrCat(method.name(), " is for callers of all tenants"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Caller>> PlatformGate::Admit(const MethodAccess& method,
                                                                  const CallHead& head) {
  auto caller = authenticator_.Identify(head);
  if (!caller.ok()) {
    if (method.access().audited()) {
      const Caller unknown{.principal = "unknown", .source = head.source};
      audit_.NoteAnswer(method, unknown, "", "", caller.status());
    }
    return caller.status();
  }
  absl::Status refused;
  if ((*caller)->role < method.access().role()) {
    refused = RoleTooLow(method, **caller);
  } else if (method.access().all_tenants() && !(*caller)->tenant.empty()) {
    refused = NeedsAllTenants(method);
  } else {
    return caller;
  }
  if (method.access().audited()) audit_.NoteAnswer(method, **caller, "", "", refused);
  return refused;
}

absl::Status PlatformGate::CheckRequest(const MethodAccess& method, const Caller& caller,
                                        const std::string& resource,
                                        const google::protobuf::Message& request) {
  // The messages of a stream may come long after the caller was admitted.
  if (absl::Status valid = authenticator_.CheckStillValid(caller); !valid.ok()) return valid;
  const std::string tenant = TenantOf(resource);
  if (tenant.empty()) return absl::OkStatus();  // the method refuses a malformed name
  // The answer is the same whether the tenant exists or not.
  if (!caller.MaySee(tenant)) return NotFound(absl::StrCat("tenants/", tenant));
  return rules_ == nullptr ? absl::OkStatus() : rules_->Check(method, tenant, request);
}

void PlatformGate::OnAnswered(const MethodAccess& method, const Caller& caller,
                              const std::string& resource, const std::string& request_id,
                              const absl::Status& status) {
  audit_.NoteAnswer(method, caller, resource, request_id, status);
}

}  // namespace escapement::auth
