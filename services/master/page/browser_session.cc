#include "services/master/page/browser_session.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/rest/path_template.h"
#include "common/status/errors.h"

namespace escapement::master {
namespace {

constexpr absl::string_view kSecureName = "__Host-escapement";
constexpr absl::string_view kPlainName = "escapement";
constexpr absl::string_view kSecureSignInName = "__Host-escapement-sign-in";
constexpr absl::string_view kPlainSignInName = "escapement-sign-in";

bool ClientSpeaksTls(const HttpRequest& request) {
  return request.encrypted || absl::EqualsIgnoreCase(request.Header("x-forwarded-proto"), "https");
}

std::optional<std::string> Cookie(const HttpRequest& request, absl::string_view wanted) {
  for (const auto& [header, value] : request.headers) {
    if (!absl::EqualsIgnoreCase(header, "cookie")) continue;
    for (absl::string_view cookie : absl::StrSplit(value, ';')) {
      cookie = absl::StripAsciiWhitespace(cookie);
      if (absl::ConsumePrefix(&cookie, wanted) && absl::ConsumePrefix(&cookie, "=") &&
          !cookie.empty()) {
        return std::string(cookie);
      }
    }
  }
  return std::nullopt;
}

std::string CookieText(absl::string_view name, absl::string_view value, bool secure,
                       absl::Duration ttl, absl::string_view same_site = "Strict") {
  return absl::StrCat(name, "=", value, "; Path=/; HttpOnly; SameSite=", same_site,
                      "; Max-Age=", absl::ToInt64Seconds(ttl), secure ? "; Secure" : "");
}

// The cookie with one of the names.
std::optional<std::string> CookieOf(const HttpRequest& request, absl::string_view secure_name,
                                    absl::string_view plain_name) {
  if (auto secure = Cookie(request, secure_name); secure.has_value()) return secure;
  // A page of a neighbouring host could plant a cookie without the prefix.
  if (ClientSpeaksTls(request)) return std::nullopt;
  return Cookie(request, plain_name);
}

bool Changes(const HttpRequest& request) {
  return request.method != "GET" && request.method != "HEAD" && request.method != "OPTIONS";
}

}  // namespace

bool IsCrossOrigin(const HttpRequest& request) {
  const absl::string_view site = request.Header("sec-fetch-site");
  if (!site.empty()) return site != "same-origin" && site != "none";
  absl::string_view origin = request.Header("origin");
  if (origin.empty()) return false;
  // Behind a proxy that ends TLS the schemes differ, so only host and port are compared.
  if (!absl::ConsumePrefix(&origin, "https://") && !absl::ConsumePrefix(&origin, "http://"))
    return true;  // "null", or an extension
  return !absl::EqualsIgnoreCase(origin, request.Header("host"));
}

std::optional<std::string> SessionCredential(const HttpRequest& request) {
  return CookieOf(request, kSecureName, kPlainName);
}

absl::Status AdmitBrowser(const std::vector<std::string>& cors_origins, HttpRequest& request) {
  if (!request.Header("authorization").empty()) return absl::OkStatus();
  const bool cross = IsCrossOrigin(request);
  const auto cross_origin = [] {
    return MakeError(absl::StatusCode::kPermissionDenied, "CROSS_ORIGIN",
                     "pages of other origins may not call");
  };
  std::optional<std::string> credential = SessionCredential(request);
  if (!credential.has_value()) {
    if (!cross || !Changes(request)) return absl::OkStatus();
    const absl::string_view origin = request.Header("origin");
    const bool listed = std::any_of(
        cors_origins.begin(), cors_origins.end(),
        [origin](const std::string& allowed) { return allowed == "*" || allowed == origin; });
    return listed ? absl::OkStatus() : cross_origin();
  }
  if (cross) return cross_origin();
  if (Changes(request) && request.Header(kCsrfHeader).empty()) {
    return MakeError(
        absl::StatusCode::kPermissionDenied, "CSRF_HEADER_MISSING",
        absl::StrCat("a change with the session's cookie needs the header ", kCsrfHeader));
  }
  request.headers.emplace_back("Authorization", absl::StrCat("Bearer ", *credential));
  return absl::OkStatus();
}

bool IsCookieValue(absl::string_view credential) {
  return !credential.empty() && credential.size() <= kSessionCredentialBytesMax &&
         std::all_of(credential.begin(), credential.end(), [](char c) {
           return absl::ascii_isalnum(c) || absl::StrContains("-._~+/=", c);
         });
}

std::string BeginSessionCookie(const HttpRequest& request, absl::string_view credential) {
  const bool secure = ClientSpeaksTls(request);
  return CookieText(secure ? kSecureName : kPlainName, credential, secure, kSessionTtl);
}

std::vector<std::string> EndSessionCookies() {
  return {CookieText(kSecureName, "", true, absl::ZeroDuration()),
          CookieText(kPlainName, "", false, absl::ZeroDuration())};
}

std::optional<std::string> SignInCookie(const HttpRequest& request) {
  return CookieOf(request, kSecureSignInName, kPlainSignInName);
}

std::string BeginSignInCookie(const HttpRequest& request, absl::string_view value) {
  const bool secure = ClientSpeaksTls(request);
  return CookieText(secure ? kSecureSignInName : kPlainSignInName, value, secure, auth::kSignInMax,
                    "Lax");
}

std::vector<std::string> EndSignInCookies() {
  return {CookieText(kSecureSignInName, "", true, absl::ZeroDuration(), "Lax"),
          CookieText(kPlainSignInName, "", false, absl::ZeroDuration(), "Lax")};
}

std::string QueryValue(absl::string_view query, absl::string_view name) {
  std::optional<std::string> found;
  for (absl::string_view part : absl::StrSplit(query, '&')) {
    if (!absl::ConsumePrefix(&part, name) || !absl::ConsumePrefix(&part, "=")) continue;
    if (found.has_value()) return "";
    found = rest::PercentDecoded(part, true).value_or("");
  }
  return found.value_or("");
}

std::string ReturnPath(absl::string_view address) {
  constexpr char kHome[] = "/ui";
  absl::string_view rest = address;
  if (!absl::ConsumePrefix(&rest, kHome) || address.size() > kReturnPathBytesMax) return kHome;
  if (!rest.empty() && rest[0] != '/' && rest[0] != '?') return kHome;
  // Browsers read "\" as "/", and leave the folder by "..", encoded or not.
  const bool printable = std::all_of(address.begin(), address.end(), [](char c) {
    return c > ' ' && c <= '~' && c != '\\' && c != '#';
  });
  const std::string path = absl::StrReplaceAll(
      absl::AsciiStrToLower(address.substr(0, address.find('?'))), {{"%2e", "."}});
  return printable && !absl::StrContains(path, "/.") ? std::string(address) : kHome;
}

namespace {

// The key by which failures of the client at `peer` are counted.
std::string AddressOf(absl::string_view peer) {
  absl::string_view host = peer.substr(0, peer.rfind(':'));
  if (!absl::ConsumePrefix(&host, "[")) return std::string(host);
  absl::ConsumeSuffix(&host, "]");
  in6_addr address;
  const std::string text(host.substr(0, host.find('%')));
  if (inet_pton(AF_INET6, text.c_str(), &address) != 1 || IN6_IS_ADDR_V4MAPPED(&address))
    return text;
  return std::string(reinterpret_cast<const char*>(address.s6_addr), 8);
}

}  // namespace

absl::Duration SignInLimit::WaitOf(absl::string_view peer, absl::Time now) {
  const auto found = failures_.find(AddressOf(peer));
  return found == failures_.end() ? absl::ZeroDuration() : found->second.NextAt(now) - now;
}

void SignInLimit::NoteFailure(absl::string_view peer, absl::Time now) {
  const std::string address = AddressOf(peer);
  if (failures_.size() >= kAddressesMax && !failures_.contains(address)) MakeRoom();
  failures_.try_emplace(address, 1 / absl::ToDoubleSeconds(kFailureEvery), kFailuresAtOnce)
      .first->second.Take(1, now);
}

void SignInLimit::MakeRoom() {
  failures_.erase(std::min_element(
      failures_.begin(), failures_.end(),
      [](const auto& a, const auto& b) { return a.second.tat() < b.second.tat(); }));
}

}  // namespace escapement::master
