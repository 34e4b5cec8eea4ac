#include "common/auth/hosted_gate.h"

#include "absl/strings/str_cat.h"
#include "common/auth/auth_flags.h"

namespace escapement::auth {
namespace {

kv::KvClient::Options ClientOptions(const std::string& instance) {
  kv::KvClient::Options options;
  options.name = absl::StrCat("gate ", instance);
  return options;
}

}  // namespace

HostedGate::HostedGate(const std::string& instance, kv::KvStore& store, Runtime& runtime,
                       TenantRules* rules)
    : executor_(runtime.NewExecutor("gate")),
      client_(store, runtime, ClientOptions(instance)),
      keys_(client_, executor_),
      audit_(client_, executor_),
      authenticator_({.required = CredentialsRequired(), .certificate_roles = CertificateRoles()},
                     keys_, [this] { return client_.NowLow(); }),
      gate_(authenticator_, rules, audit_) {}

HostedGate::~HostedGate() { executor_->Stop(); }

void HostedGate::Start() {
  executor_->Post([this] { keys_.Start(); });
}

}  // namespace escapement::auth
