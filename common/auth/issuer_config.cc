#include "common/auth/issuer_config.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/auth/jwks_source.h"
#include "common/base/bounded_file.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/status/errors.h"
#include "nlohmann/json.hpp"
#include "yaml-cpp/yaml.h"

namespace escapement::auth {
namespace {

constexpr size_t kTenantIdBytesMax = 63;
constexpr absl::string_view kEveryTenant = "*";
constexpr absl::string_view kRoleNames = "must be viewer, operator, editor, admin or service";

// As the master asks of a tenant's id. "-" and "*" are none, so a claim cannot name all tenants.
bool IsTenantId(absl::string_view id) {
  return !id.empty() && id.size() <= kTenantIdBytesMax && id[0] != '-' &&
         std::all_of(id.begin(), id.end(), [](unsigned char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
         });
}

// A node of the document, and its place.
struct Place {
  absl::string_view file;
  std::string path;  // "issuers[0].role"; empty for the document
  YAML::Node node;
  int line;  // the node's, or, if it is missing, that of the map that should have it

  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ":", line, ": ", path, path.empty() ? "" : ": ", what));
  }
  Place Of(std::string child_path, const YAML::Node& child) const {
    return {file, std::move(child_path), child, child.IsDefined() ? child.Mark().line + 1 : line};
  }
  Place At(const std::string& name) const {
    return Of(path.empty() ? name : absl::StrCat(path, ".", name), node[name]);
  }
  Place At(size_t index) const { return Of(absl::StrCat(path, "[", index, "]"), node[index]); }
  bool Has(const std::string& name) const { return node[name].IsDefined(); }
};

absl::Status CheckMap(const Place& place, std::initializer_list<absl::string_view> allowed) {
  if (!place.node.IsMap()) return place.Error("must be a map");
  std::set<std::string> seen;
  for (const auto& entry : place.node) {
    const Place at = place.Of(place.path, entry.first);
    if (!entry.first.IsScalar()) return at.Error("a name must be a text");
    const std::string& name = entry.first.Scalar();
    if (!seen.insert(name).second)
      return at.Error(absl::StrCat("'", ErrorText(name), "' is there twice"));
    if (allowed.size() != 0 && std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
      return at.Error(absl::StrCat("unknown field '", ErrorText(name), "'; known are ",
                                   absl::StrJoin(allowed, ", ")));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadText(const Place& place, size_t bytes_max, std::string& text) {
  if (!place.node.IsDefined()) return place.Error("is missing");
  if (!place.node.IsScalar() || place.node.Scalar().empty() ||
      place.node.Scalar().size() > bytes_max || HasControlCharacters(place.node.Scalar())) {
    return place.Error(absl::StrCat("must be a text of 1 to ", bytes_max, " printable bytes"));
  }
  text = place.node.Scalar();
  return absl::OkStatus();
}

absl::Status ReadTenant(const Place& place, std::string& tenant) {
  if (!place.node.IsScalar() ||
      (place.node.Scalar() != kEveryTenant && !IsTenantId(place.node.Scalar()))) {
    return place.Error("must be the id of a tenant, or \"*\" for all tenants");
  }
  tenant = place.node.Scalar() == kEveryTenant ? "" : place.node.Scalar();
  return absl::OkStatus();
}

absl::Status ReadRole(const Place& place, v1::Access::Role& role) {
  // Only the spelling of the documentation, not the proto's.
  if (!place.node.IsScalar() || place.node.Scalar() != absl::AsciiStrToLower(place.node.Scalar()) ||
      !v1::Access::Role_Parse(absl::AsciiStrToUpper(place.node.Scalar()), &role) ||
      role == v1::Access::ROLE_UNSPECIFIED) {
    return place.Error(kRoleNames);
  }
  return absl::OkStatus();
}

absl::Status ReadPath(const Place& place, ClaimPath& path) {
  if (!place.node.IsSequence() || place.node.size() == 0 || place.node.size() > kClaimPathMax) {
    return place.Error(
        absl::StrCat("must be a list of 1 to ", kClaimPathMax, " names of claims, such as [org]"));
  }
  for (size_t i = 0; i < place.node.size(); ++i) {
    RETURN_IF_ERROR(ReadText(place.At(i), kIssuerTextBytesMax, path.emplace_back()));
  }
  return absl::OkStatus();
}

absl::Status ReadKeys(const Place& place, IssuerConfig& issuer) {
  if (place.Has("jwks_file") == place.Has("jwks_url"))
    return place.Error("needs one of jwks_file and jwks_url");
  constexpr size_t kPathBytesMax = 4096;
  if (place.Has("jwks_file")) {
    if (place.Has("jwks_ca")) return place.At("jwks_ca").Error("is only for jwks_url");
    return ReadText(place.At("jwks_file"), kPathBytesMax, issuer.jwks_file);
  }
  const Place url = place.At("jwks_url");
  RETURN_IF_ERROR(ReadText(url, kIssuerUrlBytesMax, issuer.jwks_url));
  if (const absl::Status status = CheckIssuerUrl(issuer.jwks_url); !status.ok())
    return url.Error(status.message());
  if (!place.Has("jwks_ca")) return absl::OkStatus();
  return ReadText(place.At("jwks_ca"), kPathBytesMax, issuer.jwks_ca);
}

absl::Status NeedsAllTenants(const Place& place) {
  return place.Error("the role service needs the tenant \"*\"");
}

absl::Status ReadSubjects(const Place& place, IssuerConfig& issuer) {
  RETURN_IF_ERROR(CheckMap(place, {}));
  if (place.node.size() == 0) return place.Error("must name a subject");
  for (const auto& entry : place.node) {
    const std::string& subject = entry.first.Scalar();
    const Place at = place.Of(absl::StrCat(place.path, "[", ErrorText(subject), "]"), entry.second);
    if (subject.empty()) return at.Error("a subject must not be empty");
    RETURN_IF_ERROR(CheckMap(at, {"tenant", "role"}));
    for (const char* name : {"tenant", "role"}) {
      if (!at.Has(name)) return at.Error(absl::StrCat(name, " is missing"));
    }
    Grant& grant = issuer.subjects[subject];
    RETURN_IF_ERROR(ReadTenant(at.At("tenant"), grant.tenant));
    RETURN_IF_ERROR(ReadRole(at.At("role"), grant.role));
    if (grant.role == v1::Access::SERVICE && !grant.tenant.empty()) return NeedsAllTenants(at);
  }
  return absl::OkStatus();
}

absl::Status ReadTenantRule(const Place& place, IssuerConfig& issuer) {
  if (place.Has("tenant") == place.Has("tenant_claim"))
    return place.Error("needs one of tenant and tenant_claim");
  if (place.Has("tenant")) return ReadTenant(place.At("tenant"), issuer.tenant.emplace());
  return ReadPath(place.At("tenant_claim"), issuer.tenant_claim);
}

absl::Status ReadRoleRule(const Place& place, IssuerConfig& issuer) {
  const bool all_tenants = issuer.tenant.has_value() && issuer.tenant->empty();
  if (place.Has("role") == place.Has("role_claim"))
    return place.Error("needs one of role and role_claim");
  if (place.Has("role_claim") != place.Has("roles"))
    return place.Error("role_claim and roles go together");
  if (place.Has("role")) {
    RETURN_IF_ERROR(ReadRole(place.At("role"), issuer.role));
    return issuer.role == v1::Access::SERVICE && !all_tenants ? NeedsAllTenants(place.At("role"))
                                                              : absl::OkStatus();
  }
  RETURN_IF_ERROR(ReadPath(place.At("role_claim"), issuer.role_claim));
  const Place roles = place.At("roles");
  RETURN_IF_ERROR(CheckMap(roles, {}));
  if (roles.node.size() == 0) return roles.Error("must name a value");
  for (const auto& entry : roles.node) {
    const std::string& value = entry.first.Scalar();
    const Place at = roles.Of(absl::StrCat(roles.path, "[", ErrorText(value), "]"), entry.second);
    v1::Access::Role& role = issuer.roles[value];
    RETURN_IF_ERROR(ReadRole(at, role));
    if (role == v1::Access::SERVICE && !all_tenants) return NeedsAllTenants(at);
  }
  return absl::OkStatus();
}

bool IsOneWord(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; });
}

absl::Status ReadScopes(const Place& place, SignInConfig& sign_in) {
  if (!place.node.IsSequence() || place.node.size() > kSignInEntriesMax)
    return place.Error(absl::StrCat("must be a list of at most ", kSignInEntriesMax, " scopes"));
  for (size_t i = 0; i < place.node.size(); ++i) {
    std::string scope;
    RETURN_IF_ERROR(ReadText(place.At(i), kIssuerTextBytesMax, scope));
    if (!IsOneWord(scope)) return place.At(i).Error("must be one word");
    if (scope != "openid") sign_in.scopes.push_back(std::move(scope));
  }
  return absl::OkStatus();
}

absl::Status ReadParameters(const Place& place, SignInConfig& sign_in) {
  RETURN_IF_ERROR(CheckMap(place, {}));
  if (place.node.size() > kSignInEntriesMax)
    return place.Error(absl::StrCat("must have at most ", kSignInEntriesMax, " parameters"));
  // A request object, or another mode of the answer, would change what the page checks.
  static const std::set<std::string> own = {
      "client_id",   "code_challenge", "code_challenge_method", "nonce", "redirect_uri", "request",
      "request_uri", "response_mode",  "response_type",         "scope", "state"};
  for (const auto& entry : place.node) {
    const std::string& name = entry.first.Scalar();
    const Place at = place.Of(absl::StrCat(place.path, "[", ErrorText(name), "]"), entry.second);
    if (own.contains(name)) return at.Error("cannot be set");
    RETURN_IF_ERROR(ReadText(at, kIssuerTextBytesMax, sign_in.parameters[name]));
  }
  return absl::OkStatus();
}

absl::Status ReadSignIn(const Place& place, IssuerConfig& issuer) {
  RETURN_IF_ERROR(CheckMap(
      place, {"client_id", "client_secret_file", "origin", "name", "scopes", "parameters"}));
  SignInConfig& sign_in = issuer.sign_in.emplace();
  sign_in.name = issuer.issuer;
  if (const auto status = CheckIssuerUrl(issuer.issuer);
      !status.ok() || absl::StrContains(issuer.issuer, '?')) {
    return place.Error(
        "needs an issuer that is an https URL, or an http URL of a loopback address");
  }
  RETURN_IF_ERROR(ReadText(place.At("client_id"), kIssuerTextBytesMax, sign_in.client_id));
  if (sign_in.client_id == issuer.audience) {
    return place.At("client_id")
        .Error("must not be the audience: the ID tokens of people would be credentials of the API");
  }
  if (place.Has("client_secret_file"))
    RETURN_IF_ERROR(ReadText(place.At("client_secret_file"), 4096, sign_in.client_secret_file));
  const Place origin = place.At("origin");
  RETURN_IF_ERROR(ReadText(origin, kIssuerTextBytesMax, sign_in.origin));
  const size_t host = sign_in.origin.find("://");
  if (!CheckIssuerUrl(sign_in.origin).ok() || host == std::string::npos ||
      !IsOneWord(sign_in.origin) ||
      sign_in.origin.find_first_of("/?", host + 3) != std::string::npos) {
    return origin.Error(
        "must be scheme, host and port of the page, such as https://ops.example.com; http only for "
        "a loopback address");
  }
  if (place.Has("name"))
    RETURN_IF_ERROR(ReadText(place.At("name"), kIssuerTextBytesMax, sign_in.name));
  if (place.Has("scopes")) RETURN_IF_ERROR(ReadScopes(place.At("scopes"), sign_in));
  return place.Has("parameters") ? ReadParameters(place.At("parameters"), sign_in)
                                 : absl::OkStatus();
}

absl::StatusOr<IssuerConfig> ReadIssuer(const Place& place) {
  IssuerConfig issuer;
  absl::Status status =
      CheckMap(place, {"issuer", "audience", "jwks_file", "jwks_url", "jwks_ca", "tenant",
                       "tenant_claim", "role", "role_claim", "roles", "subjects", "sign_in"});
  if (status.ok()) status = ReadText(place.At("issuer"), kIssuerTextBytesMax, issuer.issuer);
  if (status.ok()) status = ReadText(place.At("audience"), kIssuerTextBytesMax, issuer.audience);
  if (status.ok()) status = ReadKeys(place, issuer);
  if (status.ok() && place.Has("sign_in")) status = ReadSignIn(place.At("sign_in"), issuer);
  if (status.ok() && place.Has("subjects")) status = ReadSubjects(place.At("subjects"), issuer);
  const bool has_rules = place.Has("tenant") || place.Has("tenant_claim") || place.Has("role") ||
                         place.Has("role_claim") || place.Has("roles");
  if (status.ok() && (has_rules || !place.Has("subjects"))) {
    status = ReadTenantRule(place, issuer);
    if (status.ok()) status = ReadRoleRule(place, issuer);
  }
  if (!status.ok()) return status;
  return issuer;
}

absl::StatusOr<std::vector<IssuerConfig>> ReadIssuers(const Place& root) {
  RETURN_IF_ERROR(CheckMap(root, {"issuers"}));
  const Place list = root.At("issuers");
  if (!list.node.IsDefined() || !list.node.IsSequence() || list.node.size() == 0 ||
      list.node.size() > kIssuersMax) {
    return root.Error(absl::StrCat("issuers must be a list of 1 to ", kIssuersMax, " issuers"));
  }
  std::vector<IssuerConfig> issuers;
  for (size_t i = 0; i < list.node.size(); ++i) {
    ASSIGN_OR_RETURN(IssuerConfig issuer, ReadIssuer(list.At(i)));
    for (const IssuerConfig& other : issuers) {
      const Place at = list.At(i).At("issuer");
      if (other.issuer == issuer.issuer) return at.Error("is there twice");
      // Principals are jwt/<issuer>/<subject>.
      if (absl::StartsWith(other.issuer, absl::StrCat(issuer.issuer, "/")) ||
          absl::StartsWith(issuer.issuer, absl::StrCat(other.issuer, "/"))) {
        return at.Error(
            "one issuer must not be the beginning of another, or their subjects could have the "
            "same principal");
      }
    }
    issuers.push_back(std::move(issuer));
  }
  return issuers;
}

const nlohmann::json* ClaimAt(const nlohmann::json& claims, const ClaimPath& path) {
  const nlohmann::json* value = &claims;
  for (const std::string& part : path) {
    if (!value->is_object()) return nullptr;
    const auto found = value->find(part);
    if (found == value->end()) return nullptr;
    value = &*found;
  }
  return value;
}

}  // namespace

absl::StatusOr<std::string> SignInConfig::ReadSecret() const {
  if (client_secret_file.empty()) return "";
  ASSIGN_OR_RETURN(const std::string text,
                   ReadBoundedFile(client_secret_file, kClientSecretBytesMax));
  std::string secret(absl::StripAsciiWhitespace(text));
  if (secret.empty()) return absl::InvalidArgumentError(client_secret_file + " is empty");
  return secret;
}

std::optional<Grant> IssuerConfig::GrantOf(const std::string& subject,
                                           const nlohmann::json& claims) const {
  if (const auto found = subjects.find(subject); found != subjects.end()) return found->second;
  Grant grant;
  if (tenant.has_value()) {
    grant.tenant = *tenant;
  } else {
    if (tenant_claim.empty()) return std::nullopt;
    const nlohmann::json* claim = ClaimAt(claims, tenant_claim);
    if (claim == nullptr || !claim->is_string() || !IsTenantId(claim->get<std::string>()))
      return std::nullopt;
    grant.tenant = claim->get<std::string>();
  }
  grant.role = role;
  if (!role_claim.empty()) {
    const nlohmann::json* claim = ClaimAt(claims, role_claim);
    if (claim == nullptr) return std::nullopt;
    // A claim of one text and a list of one text mean the same.
    const nlohmann::json values = claim->is_array() ? *claim : nlohmann::json::array({*claim});
    for (const nlohmann::json& value : values) {
      if (!value.is_string()) continue;
      const auto found = roles.find(value.get<std::string>());
      if (found != roles.end()) grant.role = std::max(grant.role, found->second);
    }
  }
  if (grant.role == v1::Access::ROLE_UNSPECIFIED) return std::nullopt;
  return grant;
}

absl::StatusOr<std::vector<IssuerConfig>> ParseIssuerConfig(const std::string& text,
                                                            absl::string_view file) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": has ", documents.size(), " documents; only one is allowed"));
    }
    return ReadIssuers({file, "", documents.empty() ? YAML::Node() : documents[0], 1});
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ":", error.mark.line + 1, ": ", error.msg));
  }
}

absl::StatusOr<std::vector<IssuerConfig>> LoadIssuerConfig(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadBoundedFile(path, kIssuerConfigBytesMax));
  return ParseIssuerConfig(text, path);
}

}  // namespace escapement::auth
