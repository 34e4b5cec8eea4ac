// PlatformGate: the gate of the platform's servers. HostedGate: that gate as the flags of a process
// configure it: --require_credentials, --certificate_roles and --jwt_issuers.

#ifndef COMMON_AUTH_PLATFORM_GATE_H_
#define COMMON_AUTH_PLATFORM_GATE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/auth/audit_log.h"
#include "common/auth/authenticator.h"
#include "common/auth/issuer_config.h"
#include "common/auth/key_directory.h"
#include "common/auth/oidc_sign_in.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/kv_store.h"
#include "common/rpc/call_gate.h"
#include "common/runtime/runtime.h"
#include "common/tls/tls_files.h"
#include "escapement/v1/access.pb.h"

namespace escapement::auth {

// Appends a sentence for each impossible value of the flags. Files must be readable now, also those
// that --jwt_issuers names; URLs are not called.
void ValidateAuthFlags(std::vector<std::string>& errors);
// The same for processes that serve the page: secrets of clients must be readable.
void ValidateSignInFlags(std::vector<std::string>& errors);

// True: calls without credentials are refused.
bool CredentialsRequired();
// Subject alternative names of client certificates (common/tls/credentials_grpc.h), and the roles
// that they stand for.
std::vector<std::pair<std::string, v1::Access::Role>> CertificateRoles();
// The issuers of accepted tokens; empty: none. Errors as from LoadIssuerConfig.
absl::StatusOr<std::vector<IssuerConfig>> TokenIssuers();
// The files with the authorities of their key servers.
std::vector<TlsPaths> IssuerCertificates();

// The conditions of a process for each request that names a tenant. They come after the caller has
// been admitted.
class TenantRules {
 public:
  virtual ~TenantRules() = default;
  // NOT_FOUND: no such tenant. UNAUTHENTICATED: the caller's token is of a former tenant with this
  // id. FAILED_PRECONDITION: the tenant is suspended. RESOURCE_EXHAUSTED: a quota.
  virtual absl::Status Check(const MethodAccess& method, const Caller& caller,
                             const std::string& tenant,
                             const google::protobuf::Message& request) = 0;
};

// PlatformGate: the gate of the platform's servers. It checks who calls (Authenticator), whether
// the role is enough, whether the caller may know of the tenant, and what the process itself asks
// of a request (TenantRules). It audits refused calls.
//
// Threads: any.
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

// HostedGate: the gate of one process, by its flags, over the store that the process uses.
//
// Threads: one thread makes, starts and destroys it; the gate as PlatformGate.
class HostedGate {
 public:
  // `store`, `runtime` and `rules`, which may be null, outlive it. `instance` is the process's.
  // `serves_page`: people sign in to the page here, and the gate accepts the sessions of the page.
  HostedGate(const std::string& instance, kv::KvStore& store, Runtime& runtime, TenantRules* rules,
             bool serves_page = false);
  ~HostedGate();

  void Start();
  // True once API keys can be checked.
  bool Ready() const { return keys_.loaded(); }

  CallGate& gate() { return gate_; }
  // Null: no issuer has `sign_in`, or the process does not serve the page.
  OidcSignIn* sign_in() { return sign_in_.get(); }

 private:
  const std::shared_ptr<Executor> executor_;
  kv::KvClient client_;
  KeyDirectory keys_;
  AuditLog audit_;
  const std::unique_ptr<IssuerTokens> tokens_;  // null: no tokens are accepted
  const std::unique_ptr<OidcSignIn> sign_in_;
  const Authenticator authenticator_;
  PlatformGate gate_;
};

}  // namespace escapement::auth

#endif  // COMMON_AUTH_PLATFORM_GATE_H_
