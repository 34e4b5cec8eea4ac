#include "common/auth/hosted_gate.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/auth/platform_gate.h"
#include "common/base/log.h"

namespace escapement::auth {
namespace {

kv::KvClient::Options ClientOptions(const std::string& instance) {
  kv::KvClient::Options options;
  options.name = absl::StrCat("gate ", instance);
  return options;
}

std::unique_ptr<IssuerTokens> MakeTokens(Runtime& runtime) {
  absl::StatusOr<std::vector<IssuerConfig>> issuers = TokenIssuers();
  if (!issuers.ok()) {
    // The file was good when the flags were validated.
    Log(LogLevel::kError, "auth", "cannot read the issuers; no tokens are accepted",
        {{"error", issuers.status().message()}});
    return nullptr;
  }
  if (issuers->empty()) return nullptr;
  return std::make_unique<IssuerTokens>(*std::move(issuers), runtime);
}

TokenVerifier VerifierOf(const IssuerTokens* tokens, const kv::KvClient& client) {
  if (tokens == nullptr) return nullptr;
  return
      [tokens, &client](absl::string_view token) { return tokens->Verify(token, client.NowLow()); };
}

}  // namespace

HostedGate::HostedGate(const std::string& instance, kv::KvStore& store, Runtime& runtime,
                       TenantRules* rules)
    : executor_(runtime.NewExecutor("gate")),
      client_(store, runtime, ClientOptions(instance)),
      keys_(client_, executor_),
      audit_(client_, executor_),
      tokens_(MakeTokens(runtime)),
      authenticator_({.required = CredentialsRequired(),
                      .certificate_roles = CertificateRoles(),
                      .verify_token = VerifierOf(tokens_.get(), client_)},
                     keys_, [this] { return client_.NowLow(); }),
      gate_(authenticator_, rules, audit_) {}

HostedGate::~HostedGate() { executor_->Stop(); }

void HostedGate::Start() {
  if (tokens_ != nullptr) tokens_->Start();
  executor_->Post([this] { keys_.Start(); });
}

}  // namespace escapement::auth
