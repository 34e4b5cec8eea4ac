// The session of a browser with the page at /ui: a cookie that holds the caller's credential, and
// the rules by which a request of a browser may use it (docs/adr/0021).
//
// The cookie is the credential itself, so any number of masters serve a session without shared
// state. Scripts cannot read it (HttpOnly), and other sites cannot make a browser send it
// (SameSite=Strict). It is named "__Host-escapement" and Secure if the client speaks TLS, to this
// server or to a proxy that says so; otherwise "escapement".
//
// SignInLimit slows down clients that try wrong credentials.
//
// A sign-in with an issuer (common/auth/oidc_sign_in.h) has a cookie of its own until the issuer
// redirects back. That redirect comes from another site, so this cookie is SameSite=Lax.
//
// Pure.

#ifndef SERVICES_MASTER_PAGE_BROWSER_SESSION_H_
#define SERVICES_MASTER_PAGE_BROWSER_SESSION_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/auth/oidc_sign_in.h"
#include "common/base/rate_limit.h"
#include "common/http/http_server.h"

namespace escapement::master {

// The browser forgets the cookie after this time. The credential itself ends by its own rules.
inline constexpr absl::Duration kSessionTtl = absl::Hours(12);
// Browsers keep cookies of at most 4 KiB. A longer credential is refused.
inline constexpr size_t kSessionCredentialBytesMax = auth::kPageSessionBytesMax;
// A longer address of a view is not returned to after a sign-in.
inline constexpr size_t kReturnPathBytesMax = 1024;
// Pages of other origins cannot send this header without the server's consent (CORS).
inline constexpr char kCsrfHeader[] = "X-Escapement-CSRF";

// True if a page of another origin sent the request, as the browser's own headers say
// (Sec-Fetch-Site, or Origin compared with Host). Clients that are no browsers send neither.
bool IsCrossOrigin(const HttpRequest& request);

// The credential of the request's cookie; nullopt without one.
std::optional<std::string> SessionCredential(const HttpRequest& request);

// Checks a request for the REST API, or for lines of events, before anything else reads it, and
// turns the cookie into the header Authorization. An Authorization header of the request goes
// before the cookie.
//
// PERMISSION_DENIED, reason CROSS_ORIGIN: a page of another origin sent the cookie, or sent a
// change without a credential of its own and its origin is not in `cors_origins`. Reason
// CSRF_HEADER_MISSING: a change with the cookie, but without kCsrfHeader.
absl::Status AdmitBrowser(const std::vector<std::string>& cors_origins, HttpRequest& request);

// True if the credential may stand in a cookie: printable, without separators, and short enough.
bool IsCookieValue(absl::string_view credential);

// Values of Set-Cookie.
std::string BeginSessionCookie(const HttpRequest& request, absl::string_view credential);
// Ends both forms, so that no session outlives a change from one to the other.
std::vector<std::string> EndSessionCookies();

// The cookie of a sign-in with an issuer.
std::optional<std::string> SignInCookie(const HttpRequest& request);
std::string BeginSignInCookie(const HttpRequest& request, absl::string_view value);
std::vector<std::string> EndSignInCookies();

// The decoded value of a query's parameter; empty if it is missing, malformed, or there twice.
std::string QueryValue(absl::string_view query, absl::string_view name);

// The address of a view as it is if it belongs to the page, else "/ui". So a link to a sign-in
// leads to no other place.
std::string ReturnPath(absl::string_view address);

// Bounds the failed sign-ins of each client address: so many at once, then one in kFailureEvery.
// IPv6 addresses of one /64 count as one, since a host can have all of them.
class SignInLimit {
 public:
  static constexpr uint64_t kFailuresAtOnce = 10;
  static constexpr absl::Duration kFailureEvery = absl::Seconds(10);
  // Further addresses take the place of those that may try again soonest.
  static constexpr size_t kAddressesMax = 10'000;

  // How long the client at `peer` ("ip:port", IPv6 in brackets) must wait before its next try; 0:
  // not at all. Times are those of any clock.
  absl::Duration WaitOf(absl::string_view peer, absl::Time now);
  void NoteFailure(absl::string_view peer, absl::Time now);

  size_t addresses() const { return failures_.size(); }

 private:
  void MakeRoom();

  std::map<std::string, RateLimit> failures_;  // by address
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_PAGE_BROWSER_SESSION_H_
