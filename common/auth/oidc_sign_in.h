// OidcSignIn: people sign in to the page with an issuer, by OpenID Connect: the authorization code
// flow with PKCE (RFC 7636, S256).
//
//   Begin     → the issuer's address, and a cookie with state, nonce and PKCE verifier
//   Finish    the issuer redirected back: checks state and `iss` (RFC 9207), exchanges the code,
//             verifies the ID token (IssuerTokens) → a session
//   Open      a session's caller, for the gate
//   Renew     a new session by the refresh token
//   SignOut   → the issuer's address where its own session ends
//
// A session and the cookie of a sign-in are sealed (AES-256-GCM, sealed_value.h) with a key that
// follows from the platform's key in `meta` and the secrets of the clients. So each master opens
// what another one has sealed, and nothing is stored. A session is a bearer credential, "page_" and
// base64url. It has the principal, tenant and role that the ID token gave. It ends with the ID
// token, and kPageSessionMax after the sign-in at the latest. It cannot be revoked sooner: a
// sign-out only removes the cookie.
//
// The session also keeps the ID token, for the sign-out, and the refresh token. If all is larger
// than kPageSessionBytesMax, the ID token is left out, then the refresh token: without it a session
// cannot be renewed.
//
// Each issuer has a thread of its own, on which its endpoints are called (jwks_source.h). Its
// configuration is read from /.well-known/openid-configuration when it is needed, at most each
// kJwksRefreshEvery, and after a failure each kJwksRetryAfter.
//
// Threads: any. Callbacks run on the issuer's thread, or at once.

#ifndef COMMON_AUTH_OIDC_SIGN_IN_H_
#define COMMON_AUTH_OIDC_SIGN_IN_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/auth/authenticator.h"
#include "common/auth/issuer_config.h"
#include "common/auth/jwks_source.h"
#include "common/rpc/call_gate.h"
#include "common/runtime/runtime.h"
#include "common/secrets/sealed_value.h"

namespace escapement::auth {

inline constexpr absl::string_view kPageSessionPrefix = "page_";
// Browsers keep cookies of at most 4 KiB, name and attributes included.
inline constexpr size_t kPageSessionBytesMax = 3800;
// After this time people sign in again, however often the session was renewed.
inline constexpr absl::Duration kPageSessionMax = absl::Hours(12);
inline constexpr absl::Duration kRenewBefore = absl::Seconds(30);
// How long people may take at the issuer. Afterwards they must begin again.
inline constexpr absl::Duration kSignInMax = absl::Minutes(10);
// Calls that may wait for the thread of one issuer; further ones are refused. A call that has
// waited for kSignInWaitMax is refused, too, so a slow issuer delays an answer by at most this time
// and three fetches: its configuration, its tokens and its keys.
inline constexpr int kSignInsWaitingMax = 100;
inline constexpr absl::Duration kSignInWaitMax = absl::Seconds(10);
// The HMAC of this text under the platform's key, together with the secrets of the clients, gives
// the key of sessions.
inline constexpr absl::string_view kPageKeyLabel = "escapement: key of the page's sessions";

class OidcSignIn {
 public:
  template <typename T>
  using Done = absl::AnyInvocable<void(T)>;

  // `tokens` and `runtime` outlive it. `now` gives the store's time; InfinitePast: it is not known.
  OidcSignIn(const std::vector<IssuerConfig>& issuers, const IssuerTokens& tokens, Runtime& runtime,
             std::function<absl::Time()> now, IssuerFetcher fetch = FetchFromIssuer);
  ~OidcSignIn();

  // `key`: 32 bytes, those of kPageKeyLabel. Until then all calls are answered UNAVAILABLE
  // (NOT_READY).
  void SetKey(absl::string_view key);
  // Drops what waits, and waits for the running callback. Idempotent.
  void Stop();

  struct Choice {
    std::string issuer;
    std::string name;  // for people
  };
  // The issuers with `sign_in`, in the order of the file.
  std::vector<Choice> Choices() const;

  struct Begun {
    std::string location;  // the issuer's page
    std::string cookie;    // for the browser, until Finish or kSignInMax
  };
  // `return_to` comes back from Finish. NOT_FOUND: no such issuer. UNAVAILABLE: the issuer does not
  // answer in time, or as it should.
  void Begin(const std::string& issuer, const std::string& return_to,
             Done<absl::StatusOr<Begun>> done);

  // The parameters of the issuer's redirect; empty: not given.
  struct Answer {
    std::string state;
    std::string issuer;  // `iss`
    std::string error;
    std::string code;
  };
  struct Finished {
    // UNAUTHENTICATED with the reason SIGN_IN_STATE (the answer does not belong to the cookie),
    // SIGN_IN_REFUSED (the issuer says no) or one of jwt_verifier.h. PERMISSION_DENIED (NO_RIGHTS).
    // UNAVAILABLE as from Begin.
    absl::StatusOr<std::string> session;
    std::string return_to;  // empty if the cookie is not valid
  };
  void Finish(absl::string_view cookie, Answer answer, Done<Finished> done);

  // The caller that the session stands for, as IssuerTokens gives it for a token. UNAUTHENTICATED
  // with the reasons CREDENTIAL_INVALID and CREDENTIAL_EXPIRED.
  absl::StatusOr<Caller> Open(absl::string_view session) const;

  // In how long the session should be renewed: kRenewBefore its end, or at once. nullopt: it cannot
  // be renewed.
  std::optional<absl::Duration> RenewAfter(absl::string_view session) const;
  // A session in the place of one that ends soon, or has ended. UNAUTHENTICATED: it cannot be
  // renewed, so people must sign in again. UNAVAILABLE as from Begin, or while it is renewed
  // already; try again.
  void Renew(absl::string_view session, Done<absl::StatusOr<std::string>> done);

  // Where the browser ends the issuer's session; empty: nowhere. If the issuer can, it also revokes
  // the token that renews the session.
  void SignOut(absl::string_view session, Done<std::string> done);

 private:
  struct Issuer;
  struct Metadata;
  struct Session;
  struct Tokens;

  Issuer* Find(const std::string& name) const;
  // Runs `work` on the issuer's thread, or at once with an error.
  void Post(Issuer& issuer, Done<absl::Status> work);
  // On the issuer's thread.
  absl::StatusOr<const Metadata*> Discover(Issuer& issuer);
  // The answer of one of the issuer's endpoints to the client's form.
  absl::StatusOr<std::string> Ask(Issuer& issuer, const Metadata& metadata, const std::string& url,
                                  std::vector<std::pair<std::string, std::string>> form);
  absl::StatusOr<Tokens> RequestTokens(Issuer& issuer,
                                       std::vector<std::pair<std::string, std::string>> form);
  // Waits, until `deadline` of the clock, for keys that are being read.
  void Verify(Issuer& issuer, std::string id_token, std::string nonce, absl::Duration deadline,
              Done<absl::StatusOr<Caller>> done);

  absl::StatusOr<std::string> Seal(absl::string_view text, absl::string_view purpose) const;
  absl::StatusOr<std::string> Unseal(absl::string_view sealed, absl::string_view purpose) const;
  absl::StatusOr<std::string> SealSession(Session session) const;
  absl::StatusOr<Session> ReadSession(absl::string_view text) const;
  std::shared_ptr<const Sealer> sealer() const;

  const IssuerTokens& tokens_;
  Clock& clock_;
  const std::function<absl::Time()> now_;
  const IssuerFetcher fetch_;
  std::atomic<bool> stopping_ = false;
  std::vector<std::unique_ptr<Issuer>> issuers_;

  mutable absl::Mutex mutex_;
  std::shared_ptr<const Sealer> sealer_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> renewing_ ABSL_GUARDED_BY(mutex_);  // principals
};

}  // namespace escapement::auth

#endif  // COMMON_AUTH_OIDC_SIGN_IN_H_
