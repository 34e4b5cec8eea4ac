#include "common/auth/platform_gate.h"

#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/auth/jwks_source.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/status/errors.h"
#include "common/tls/tls_files.h"
#include "common/tokens/token_batch.h"

ABSL_FLAG(bool, require_credentials, false,
          "refuse calls without an API key, a token or a client certificate");
ABSL_FLAG(std::vector<std::string>, certificate_roles, {"DNS:escapement-service=service"},
          "roles of client certificates, for all tenants: NAME=ROLE, where NAME is a subject "
          "alternative name with its kind, such as DNS:operator or URI:spiffe://example/ci, and "
          "ROLE viewer, operator, editor, admin or service");
ABSL_FLAG(std::string, jwt_issuers, "",
          "YAML file with the issuers whose JWT bearer tokens are accepted, and the tenants and "
          "roles of their tokens");

namespace escapement::auth {

namespace {

// False if it is malformed.
bool ReadEntry(const std::string& text, std::string& name, v1::Access::Role& role) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return false;
  name = text.substr(0, equals);
  return v1::Access::Role_Parse(absl::AsciiStrToUpper(text.substr(equals + 1)), &role) &&
         role != v1::Access::ROLE_UNSPECIFIED;
}

void CheckIssuers(std::vector<std::string>& errors) {
  const absl::StatusOr<std::vector<IssuerConfig>> issuers = TokenIssuers();
  const auto refuse = [&errors](absl::string_view what) {
    errors.push_back(absl::StrCat("--jwt_issuers: ", what));
  };
  if (!issuers.ok()) return refuse(issuers.status().message());
  for (const IssuerConfig& issuer : *issuers) {
    if (!issuer.jwks_file.empty()) {
      const absl::StatusOr<Jwks> keys = ReadJwksFile(issuer.jwks_file);
      if (!keys.ok()) {
        refuse(keys.status().message());
      } else if (keys->keys().empty()) {
        refuse(absl::StrCat(issuer.jwks_file, ": has no RSA key of 2048 bits and no P-256 key"));
      }
    }
    if (!issuer.jwks_ca.empty()) {
      const absl::Status status = CheckPeerTls({.ca = issuer.jwks_ca});
      if (!status.ok()) refuse(status.message());
    }
  }
}

}  // namespace

void ValidateAuthFlags(std::vector<std::string>& errors) {
  for (const std::string& text : absl::GetFlag(FLAGS_certificate_roles)) {
    std::string name;
    v1::Access::Role role;
    if (!ReadEntry(text, name, role)) {
      errors.push_back(absl::StrCat("--certificate_roles: \"", text,
                                    "\" is not NAME=ROLE with the role viewer, operator, editor, "
                                    "admin or service"));
    }
  }
  CheckIssuers(errors);
}

void ValidateSignInFlags(std::vector<std::string>& errors) {
  const absl::StatusOr<std::vector<IssuerConfig>> issuers = TokenIssuers();
  if (!issuers.ok()) return;  // ValidateAuthFlags says so
  for (const IssuerConfig& issuer : *issuers) {
    if (!issuer.sign_in.has_value()) continue;
    if (const auto secret = issuer.sign_in->ReadSecret(); !secret.ok())
      errors.push_back(absl::StrCat("--jwt_issuers: ", secret.status().message()));
  }
}

std::vector<TlsPaths> IssuerCertificates() {
  std::vector<TlsPaths> all;
  const absl::StatusOr<std::vector<IssuerConfig>> issuers = TokenIssuers();
  if (!issuers.ok()) return all;
  for (const IssuerConfig& issuer : *issuers)
    if (!issuer.jwks_ca.empty()) all.push_back({.ca = issuer.jwks_ca});
  return all;
}

bool CredentialsRequired() { return absl::GetFlag(FLAGS_require_credentials); }

std::vector<std::pair<std::string, v1::Access::Role>> CertificateRoles() {
  std::vector<std::pair<std::string, v1::Access::Role>> roles;
  for (const std::string& text : absl::GetFlag(FLAGS_certificate_roles)) {
    std::string name;
    v1::Access::Role role;
    if (ReadEntry(text, name, role)) roles.emplace_back(std::move(name), role);
  }
  return roles;
}

absl::StatusOr<std::vector<IssuerConfig>> TokenIssuers() {
  const std::string path = absl::GetFlag(FLAGS_jwt_issuers);
  if (path.empty()) return std::vector<IssuerConfig>();
  return LoadIssuerConfig(path);
}

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
  RETURN_IF_ERROR(authenticator_.CheckStillValid(caller));
  const std::string tenant = TenantOf(resource);
  if (tenant.empty()) return absl::OkStatus();  // the method refuses a malformed name
  // The answer is the same whether the tenant exists or not.
  if (!caller.MaySee(tenant)) {
    return MakeError(absl::StatusCode::kNotFound, "RESOURCE_NOT_FOUND",
                     absl::StrCat("tenants/", tenant, " does not exist for this credential, which ",
                                  "is for tenants/", caller.tenant),
                     {{"resource", absl::StrCat("tenants/", tenant)}});
  }
  return rules_ == nullptr ? absl::OkStatus() : rules_->Check(method, caller, tenant, request);
}

void PlatformGate::OnAnswered(const MethodAccess& method, const Caller& caller,
                              const std::string& resource, const std::string& request_id,
                              const absl::Status& status) {
  audit_.NoteAnswer(method, caller, resource, request_id, status);
}

namespace {

kv::KvClient::Options ClientOptions(const std::string& instance) {
  kv::KvClient::Options options;
  options.name = absl::StrCat("gate ", instance);
  return options;
}

std::vector<IssuerConfig> ReadIssuersAgain() {
  absl::StatusOr<std::vector<IssuerConfig>> issuers = TokenIssuers();
  if (issuers.ok()) return *std::move(issuers);
  // The file was good when the flags were validated.
  Log(LogLevel::kError, "auth", "cannot read the issuers; no tokens are accepted",
      {{"error", issuers.status().message()}});
  return {};
}

std::unique_ptr<IssuerTokens> MakeTokens(Runtime& runtime) {
  std::vector<IssuerConfig> issuers = ReadIssuersAgain();
  if (issuers.empty()) return nullptr;
  return std::make_unique<IssuerTokens>(std::move(issuers), runtime);
}

std::unique_ptr<OidcSignIn> MakeSignIn(const IssuerTokens* tokens, const kv::KvClient& client,
                                       Runtime& runtime) {
  if (tokens == nullptr) return nullptr;
  auto sign_in = std::make_unique<OidcSignIn>(ReadIssuersAgain(), *tokens, runtime,
                                              [&client] { return client.NowLow(); });
  return sign_in->Choices().empty() ? nullptr : std::move(sign_in);
}

TokenVerifier VerifierOf(const IssuerTokens* tokens, const OidcSignIn* sign_in,
                         const kv::KvClient& client) {
  if (tokens == nullptr) return nullptr;
  return [tokens, sign_in, &client](absl::string_view token) {
    if (sign_in != nullptr && absl::StartsWith(token, kPageSessionPrefix))
      return sign_in->Open(token);
    return tokens->Verify(token, client.NowLow());
  };
}

}  // namespace

HostedGate::HostedGate(const std::string& instance, kv::KvStore& store, Runtime& runtime,
                       TenantRules* rules, bool serves_page)
    : executor_(runtime.NewExecutor("gate")),
      client_(store, runtime, ClientOptions(instance)),
      keys_(client_, executor_),
      audit_(client_, executor_),
      tokens_(MakeTokens(runtime)),
      sign_in_(serves_page ? MakeSignIn(tokens_.get(), client_, runtime) : nullptr),
      authenticator_({.required = CredentialsRequired(),
                      .certificate_roles = CertificateRoles(),
                      .verify_token = VerifierOf(tokens_.get(), sign_in_.get(), client_)},
                     keys_, [this] { return client_.NowLow(); }),
      gate_(authenticator_, rules, audit_) {}

HostedGate::~HostedGate() { executor_->Stop(); }

void HostedGate::Start() {
  if (tokens_ != nullptr) tokens_->Start();
  executor_->Post([this] {
    keys_.Start();
    if (sign_in_ == nullptr) return;
    LoadTokenMint(client_, executor_, FreshTokenKey(),
                  [this](const std::shared_ptr<const TokenMint>& platform) {
                    sign_in_->SetKey(platform->Mac(kPageKeyLabel));
                  });
  });
}

}  // namespace escapement::auth
