// The issuers whose tokens are accepted, and what their tokens may do: a YAML file.
//
//   issuers:
//     - issuer: https://login.example.com     # equals the claim `iss`
//       audience: escapement                  # is in the claim `aud`
//       jwks_url: https://login.example.com/keys
//       tenant_claim: [org, id]               # the claim `id` inside the claim `org`
//       role_claim: [groups]                  # a string or a list of strings
//       roles: {schedulers: editor, sre: admin}
//     - issuer: https://kubernetes.default.svc.cluster.local
//       audience: escapement
//       jwks_file: /etc/escapement/cluster-keys.json
//       subjects:
//         system:serviceaccount:jobs:nightly: {tenant: jobs, role: operator}
//
//   issuer, audience   required. Each issuer is in the file once.
//   jwks_file          the key set in a file, or
//   jwks_url           at an https URL; http only for a loopback address
//   jwks_ca            PEM file with the authorities of jwks_url. Default: those of the system.
//   tenant             the id of a tenant, or "*" for all tenants; or
//   tenant_claim       the path of the claim that has the tenant's id
//   role               viewer, operator, editor, admin or service; or
//   role_claim, roles  the path of a claim, and a map from its values to roles. If the claim is a
//                      list, the highest role counts.
//   subjects           a map from subjects (the claim `sub`) to {tenant, role}. It goes before the
//                      other rules. Without other rules only these subjects are accepted.
//   sign_in            people sign in to the page with this issuer (oidc_sign_in.h). A map of
//     client_id          required, as it is registered with the issuer
//     client_secret_file file with the client's secret. Default: a public client
//     origin             required: where browsers find the page, "https://ops.example.com"; http
//                        only for a loopback address. The issuer may redirect to
//                        origin + kSignedInPath and, after a sign-out, to origin + "/ui".
//     name               on the button. Default: the issuer
//     scopes             beside "openid", such as [offline_access]
//     parameters         a map of further parameters of the request, such as {prompt: consent}
//
// The role service needs the tenant "*", because internal RPCs belong to no tenant.
//
// Pure, except for LoadIssuerConfig.

#ifndef COMMON_AUTH_ISSUER_CONFIG_H_
#define COMMON_AUTH_ISSUER_CONFIG_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "escapement/v1/access.pb.h"
#include "nlohmann/json_fwd.hpp"

namespace escapement::auth {

inline constexpr size_t kIssuerConfigBytesMax = 1 << 20;
inline constexpr size_t kIssuersMax = 32;
inline constexpr size_t kIssuerTextBytesMax = 256;  // issuer and audience
inline constexpr size_t kClaimPathMax = 8;          // parts of a path
inline constexpr size_t kSignInEntriesMax = 16;     // scopes, and parameters
inline constexpr size_t kClientSecretBytesMax = 1024;
inline constexpr char kSignedInPath[] = "/ui/signed-in";

// The rights of a token.
struct Grant {
  std::string tenant;  // empty: all tenants
  v1::Access::Role role = v1::Access::ROLE_UNSPECIFIED;

  bool operator==(const Grant&) const = default;
};

// The names of claims inside each other, the outermost first.
using ClaimPath = std::vector<std::string>;

// How people sign in to the page with an issuer.
struct SignInConfig {
  std::string client_id;
  std::string client_secret_file;  // empty: the client has no secret
  std::string origin;
  std::string name;
  std::vector<std::string> scopes = {"openid"};
  std::map<std::string, std::string> parameters;

  // Empty: the client has none. Errors as from ReadBoundedFile. INVALID_ARGUMENT: an empty file.
  absl::StatusOr<std::string> ReadSecret() const;
};

struct IssuerConfig {
  std::string issuer;
  std::string audience;
  std::string jwks_file;  // this or jwks_url is set
  std::string jwks_url;
  std::string jwks_ca;  // empty: the system's

  // Rules for subjects that are not in `subjects`. Without them these are refused.
  std::optional<std::string> tenant;  // empty text: all tenants
  ClaimPath tenant_claim;
  v1::Access::Role role = v1::Access::ROLE_UNSPECIFIED;
  ClaimPath role_claim;
  std::map<std::string, v1::Access::Role> roles;

  std::map<std::string, Grant> subjects;

  std::optional<SignInConfig> sign_in;  // nullopt: not with this issuer

  // The rights that these claims give. nullopt: none, so the token is refused.
  std::optional<Grant> GrantOf(const std::string& subject, const nlohmann::json& claims) const;
};

// INVALID_ARGUMENT: a sentence that begins with the place, "FILE:12: issuers[0].role: …".
absl::StatusOr<std::vector<IssuerConfig>> ParseIssuerConfig(const std::string& text,
                                                            absl::string_view file);
// Errors as from ParseIssuerConfig and ReadBoundedFile.
absl::StatusOr<std::vector<IssuerConfig>> LoadIssuerConfig(const std::string& path);

}  // namespace escapement::auth

#endif  // COMMON_AUTH_ISSUER_CONFIG_H_
