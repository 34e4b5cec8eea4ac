#include "common/auth/oidc_sign_in.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/auth/jwks.h"
#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/secrets/secret_text.h"
#include "common/status/errors.h"
#include "nlohmann/json.hpp"

namespace escapement::auth {

namespace {

using nlohmann::json;
using Parameters = std::vector<std::pair<std::string, std::string>>;

constexpr absl::string_view kSessionPurpose = "page session";
constexpr absl::string_view kSignInPurpose = "page sign-in";
constexpr absl::string_view kDiscoveryPath = "/.well-known/openid-configuration";
constexpr absl::Duration kKeysLookEvery = absl::Milliseconds(100);

absl::Status Denied(absl::string_view reason, absl::string_view message) {
  return MakeError(absl::StatusCode::kUnauthenticated, reason, message);
}
absl::Status WrongState() {
  return Denied("SIGN_IN_STATE", "the answer belongs to no sign-in of this browser; begin again");
}
absl::Status InvalidSession() {
  return Denied("CREDENTIAL_INVALID", "the session is not valid; sign in again");
}
absl::Status EndedSession() {
  return Denied("CREDENTIAL_EXPIRED", "the session has ended; sign in again");
}
absl::Status Unavailable(absl::string_view message) {
  return MakeError(absl::StatusCode::kUnavailable, "ISSUER_UNAVAILABLE", message);
}
absl::Status SessionsNotReady() {
  return MakeError(absl::StatusCode::kUnavailable, "NOT_READY",
                   "the key of sessions, or the time, is not known yet; try again");
}

// 256 random bits of the machine, as 43 characters.
std::string RandomText() {
  std::string bytes(32, '\0');
  CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()),
                   static_cast<int>(bytes.size())) == 1);
  return absl::WebSafeBase64Escape(bytes);
}

std::string UrlEncoded(absl::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-._~", c)) {
      encoded.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded.append({'%', kDigits[byte / 16], kDigits[byte % 16]});
    }
  }
  return encoded;
}

std::string FormText(const Parameters& parameters) {
  return absl::StrJoin(parameters, "&", [](std::string* out, const auto& parameter) {
    absl::StrAppend(out, UrlEncoded(parameter.first), "=", UrlEncoded(parameter.second));
  });
}

std::string WithQuery(const std::string& url, const Parameters& parameters) {
  return absl::StrCat(url, absl::StrContains(url, '?') ? "&" : "?", FormText(parameters));
}

std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// The text under this name; empty if there is none.
std::string TextOrEmpty(const json& object, const char* name) {
  const std::string* const text = TextIn(object, name);
  return text == nullptr ? "" : *text;
}

absl::Time TimeOf(const json& object, const char* name, absl::Time otherwise) {
  const auto found = object.find(name);
  return found == object.end() || !found->is_number_integer()
             ? otherwise
             : absl::FromUnixMicros(found->get<int64_t>());
}

bool ListsText(const json& object, const char* name, absl::string_view wanted) {
  const auto list = object.find(name);
  if (list == object.end() || !list->is_array()) return false;
  for (const json& each : *list)
    if (each.is_string() && each.get_ref<const std::string&>() == wanted) return true;
  return false;
}

}  // namespace

// The issuer's configuration.
struct OidcSignIn::Metadata {
  std::string authorization_endpoint;
  std::string token_endpoint;
  std::string end_session_endpoint;  // empty: there is none
  std::string revocation_endpoint;   // the same (RFC 7009)
  bool names_itself = false;         // answers have `iss`
  bool secret_in_form = false;       // else by basic authentication

  static absl::StatusOr<Metadata> Parse(const std::string& document, const std::string& issuer) {
    const std::optional<json> object = ParseJoseObject(document);
    if (!object.has_value()) return absl::InvalidArgumentError("it is not a JSON object");
    if (TextOrEmpty(*object, "issuer") != issuer)
      return absl::InvalidArgumentError("it names another issuer");
    Metadata metadata;
    metadata.authorization_endpoint = TextOrEmpty(*object, "authorization_endpoint");
    metadata.token_endpoint = TextOrEmpty(*object, "token_endpoint");
    metadata.end_session_endpoint = TextOrEmpty(*object, "end_session_endpoint");
    metadata.revocation_endpoint = TextOrEmpty(*object, "revocation_endpoint");
    const bool https = absl::StartsWithIgnoreCase(issuer, "https:");
    for (const std::string* url : {&metadata.authorization_endpoint, &metadata.token_endpoint,
                                   &metadata.end_session_endpoint, &metadata.revocation_endpoint}) {
      const bool optional =
          url == &metadata.end_session_endpoint || url == &metadata.revocation_endpoint;
      if (optional && url->empty()) continue;
      if (const absl::Status status = CheckIssuerUrl(*url); !status.ok())
        return Annotate(status, "an endpoint");
      if (https && !absl::StartsWithIgnoreCase(*url, "https:"))
        return absl::InvalidArgumentError("an endpoint is not https, as the issuer is");
    }
    const auto named = object->find("authorization_response_iss_parameter_supported");
    metadata.names_itself = named != object->end() && named->is_boolean() && named->get<bool>();
    constexpr char kMethods[] = "token_endpoint_auth_methods_supported";
    metadata.secret_in_form = ListsText(*object, kMethods, "client_secret_post") &&
                              !ListsText(*object, kMethods, "client_secret_basic");
    return metadata;
  }
};

struct OidcSignIn::Issuer {
  IssuerConfig config;
  std::shared_ptr<Executor> executor;
  std::atomic<int> waiting = 0;

  // On the executor.
  std::optional<Metadata> metadata;
  absl::Duration read_at;
  absl::Duration tried_at = -absl::InfiniteDuration();

  const SignInConfig& sign_in() const { return *config.sign_in; }
  std::string CallbackUrl() const { return absl::StrCat(sign_in().origin, kSignedInPath); }
};

struct OidcSignIn::Tokens {
  std::string id_token;
  std::string refresh_token;  // empty: none
};

struct OidcSignIn::Session {
  std::string issuer;
  Caller caller;
  absl::Time end_time;  // no renewal goes beyond it
  std::string id_token;
  std::string refresh_token;
};

OidcSignIn::OidcSignIn(const std::vector<IssuerConfig>& issuers, const IssuerTokens& tokens,
                       Runtime& runtime, std::function<absl::Time()> now, IssuerFetcher fetch)
    : tokens_(tokens), clock_(runtime.clock()), now_(std::move(now)), fetch_(std::move(fetch)) {
  for (const IssuerConfig& config : issuers) {
    if (!config.sign_in.has_value()) continue;
    auto issuer = std::make_unique<Issuer>();
    issuer->config = config;
    issuer->executor = runtime.NewExecutor("sign_in");
    issuers_.push_back(std::move(issuer));
  }
}

OidcSignIn::~OidcSignIn() { Stop(); }

void OidcSignIn::Stop() {
  stopping_ = true;
  for (const auto& issuer : issuers_) issuer->executor->Stop();
}

void OidcSignIn::SetKey(absl::string_view key) {
  std::string secrets;
  for (const auto& issuer : issuers_) {
    const absl::StatusOr<std::string> secret = issuer->sign_in().ReadSecret();
    if (!secret.ok()) {
      Log(LogLevel::kError, "auth.sign_in", "cannot read a client's secret, so nobody signs in",
          {{"issuer", issuer->config.issuer}, {"error", ErrorText(secret.status().message())}});
      return;
    }
    absl::StrAppend(&secrets, secret->size(), ":", *secret);
  }
  auto keys =
      KeyRing::Parse(absl::StrCat("page: ", absl::Base64Escape(HmacSha256(key, secrets))), "key");
  CHECK(keys.ok());
  absl::MutexLock lock(&mutex_);
  sealer_ = std::make_shared<const Sealer>(*std::move(keys));
}

std::vector<OidcSignIn::Choice> OidcSignIn::Choices() const {
  std::vector<Choice> choices;
  for (const auto& issuer : issuers_)
    choices.push_back({issuer->config.issuer, issuer->sign_in().name});
  return choices;
}

void OidcSignIn::Begin(const std::string& name, const std::string& return_to,
                       Done<absl::StatusOr<Begun>> done) {
  Issuer* const issuer = Find(name);
  if (issuer == nullptr)
    return done(absl::NotFoundError("nobody can sign in with an issuer of this name"));
  Post(*issuer, [this, issuer, return_to, done = std::move(done)](absl::Status status) mutable {
    const auto begin = [&]() -> absl::StatusOr<Begun> {
      RETURN_IF_ERROR(status);
      const absl::Time now = now_();
      if (now == absl::InfinitePast()) return SessionsNotReady();
      ASSIGN_OR_RETURN(const Metadata* const metadata, Discover(*issuer));
      const std::string state = RandomText();
      const std::string nonce = RandomText();
      const std::string verifier = RandomText();
      Sha256 challenge;
      challenge.Add(verifier);
      Begun begun;
      ASSIGN_OR_RETURN(begun.cookie, Seal(Dump({{"issuer", issuer->config.issuer},
                                                {"state", state},
                                                {"nonce", nonce},
                                                {"verifier", verifier},
                                                {"return", return_to},
                                                {"end", absl::ToUnixMicros(now + kSignInMax)}}),
                                          kSignInPurpose));
      const SignInConfig& config = issuer->sign_in();
      Parameters parameters = {{"response_type", "code"},
                               {"client_id", config.client_id},
                               {"redirect_uri", issuer->CallbackUrl()},
                               {"scope", absl::StrJoin(config.scopes, " ")},
                               {"state", state},
                               {"nonce", nonce},
                               {"code_challenge", absl::WebSafeBase64Escape(challenge.Finish())},
                               {"code_challenge_method", "S256"}};
      parameters.insert(parameters.end(), config.parameters.begin(), config.parameters.end());
      begun.location = WithQuery(metadata->authorization_endpoint, parameters);
      return begun;
    };
    done(begin());
  });
}

void OidcSignIn::Finish(absl::string_view cookie, Answer answer, Done<Finished> done) {
  const auto refuse = [&done](absl::Status status) { done({std::move(status), ""}); };
  const absl::StatusOr<std::string> text = Unseal(cookie, kSignInPurpose);
  if (!text.ok()) return refuse(absl::IsUnavailable(text.status()) ? text.status() : WrongState());
  const std::optional<json> begun = ParseJoseObject(*text);
  if (!begun.has_value()) return refuse(WrongState());
  const std::string state = TextOrEmpty(*begun, "state");
  Issuer* const issuer = Find(TextOrEmpty(*begun, "issuer"));
  const absl::Time now = now_();
  if (now == absl::InfinitePast()) return refuse(SessionsNotReady());
  if (issuer == nullptr || TimeOf(*begun, "end", absl::InfinitePast()) <= now || state.empty() ||
      state.size() != answer.state.size() ||
      CRYPTO_memcmp(state.data(), answer.state.data(), state.size()) != 0) {
    return refuse(WrongState());
  }
  Post(*issuer, [this, issuer, now, answer = std::move(answer), begun = *begun,
                 done = std::move(done)](absl::Status status) mutable {
    const std::string return_to = TextOrEmpty(begun, "return");
    const auto exchange = [&]() -> absl::StatusOr<Tokens> {
      RETURN_IF_ERROR(status);
      ASSIGN_OR_RETURN(const Metadata* const metadata, Discover(*issuer));
      // Mix-up: the code is another issuer's, and this one must not get it. This issuer could send
      // people on to another one, which only `iss` shows.
      if (answer.issuer.empty() ? metadata->names_itself || issuers_.size() > 1
                                : answer.issuer != issuer->config.issuer)
        return WrongState();
      if (!answer.error.empty() || answer.code.empty())
        return Denied("SIGN_IN_REFUSED", "the issuer has refused the sign-in");
      return RequestTokens(*issuer, {{"grant_type", "authorization_code"},
                                     {"code", answer.code},
                                     {"redirect_uri", issuer->CallbackUrl()},
                                     {"code_verifier", TextOrEmpty(begun, "verifier")}});
    };
    absl::StatusOr<Tokens> tokens = exchange();
    if (!tokens.ok()) return done({tokens.status(), return_to});
    std::string id_token = tokens->id_token;
    Verify(*issuer, std::move(id_token), TextOrEmpty(begun, "nonce"),
           clock_.Elapsed() + kIssuerFetchTimeout,
           [this, issuer, now, return_to, tokens = *std::move(tokens),
            done = std::move(done)](absl::StatusOr<Caller> caller) mutable {
             if (!caller.ok()) return done({caller.status(), return_to});
             done({SealSession({.issuer = issuer->config.issuer,
                                .caller = *std::move(caller),
                                .end_time = now + kPageSessionMax,
                                .id_token = std::move(tokens.id_token),
                                .refresh_token = std::move(tokens.refresh_token)}),
                   return_to});
           });
  });
}

absl::StatusOr<Caller> OidcSignIn::Open(absl::string_view text) const {
  ASSIGN_OR_RETURN(Session session, ReadSession(text));
  const absl::Time now = now_();
  if (now == absl::InfinitePast()) return SessionsNotReady();
  if (session.caller.expire_time <= now) return EndedSession();
  return std::move(session.caller);
}

std::optional<absl::Duration> OidcSignIn::RenewAfter(absl::string_view text) const {
  const absl::StatusOr<Session> session = ReadSession(text);
  if (!session.ok() || session->refresh_token.empty() ||
      session->caller.expire_time >= session->end_time) {
    return std::nullopt;
  }
  return std::max(session->caller.expire_time - kRenewBefore - now_(), absl::ZeroDuration());
}

void OidcSignIn::Renew(absl::string_view text, Done<absl::StatusOr<std::string>> done) {
  absl::StatusOr<Session> session = ReadSession(text);
  if (!session.ok()) return done(session.status());
  Issuer* const issuer = Find(session->issuer);
  const absl::Time now = now_();
  if (now == absl::InfinitePast()) return done(SessionsNotReady());
  if (session->refresh_token.empty() || session->end_time <= now) return done(EndedSession());
  // One at a time for each person, so that nobody fills the issuer's queue.
  const std::string principal = session->caller.principal;
  {
    absl::MutexLock lock(&mutex_);
    if (!renewing_.insert(principal).second)
      return done(Unavailable("the session is being renewed; try again"));
  }
  done = [this, principal, done = std::move(done)](absl::StatusOr<std::string> renewed) mutable {
    {
      absl::MutexLock lock(&mutex_);
      renewing_.erase(principal);
    }
    done(std::move(renewed));
  };
  Post(*issuer, [this, issuer, session = *std::move(session),
                 done = std::move(done)](absl::Status status) mutable {
    if (!status.ok()) return done(status);
    absl::StatusOr<Tokens> tokens = RequestTokens(
        *issuer, {{"grant_type", "refresh_token"}, {"refresh_token", session.refresh_token}});
    if (!tokens.ok()) return done(tokens.status());
    // An issuer that does not rotate refresh tokens sends none.
    if (!tokens->refresh_token.empty()) session.refresh_token = std::move(tokens->refresh_token);
    session.id_token = std::move(tokens->id_token);
    std::string id_token = session.id_token;
    Verify(*issuer, std::move(id_token), "", clock_.Elapsed() + kIssuerFetchTimeout,
           [this, session = std::move(session),
            done = std::move(done)](absl::StatusOr<Caller> caller) mutable {
             if (!caller.ok()) return done(caller.status());
             if (caller->principal != session.caller.principal)
               return done(Denied("CREDENTIAL_INVALID", "the issuer answers for another person"));
             session.caller = *std::move(caller);
             done(SealSession(std::move(session)));
           });
  });
}

void OidcSignIn::SignOut(absl::string_view text, Done<std::string> done) {
  absl::StatusOr<Session> session = ReadSession(text);
  if (!session.ok()) return done("");
  Issuer* const issuer = Find(session->issuer);
  Post(*issuer, [this, issuer, session = *std::move(session),
                 done = std::move(done)](absl::Status status) mutable {
    const absl::StatusOr<const Metadata*> metadata =
        status.ok() ? Discover(*issuer) : absl::StatusOr<const Metadata*>(status);
    if (!metadata.ok()) return done("");
    if ((*metadata)->end_session_endpoint.empty()) {
      done("");
    } else {
      Parameters parameters = {
          {"client_id", issuer->sign_in().client_id},
          {"post_logout_redirect_uri", absl::StrCat(issuer->sign_in().origin, "/ui")}};
      if (!session.id_token.empty())
        parameters.emplace_back("id_token_hint", std::move(session.id_token));
      done(WithQuery((*metadata)->end_session_endpoint, parameters));
    }
    // The browser does not wait for this: a copy of the session cannot be renewed any more.
    const std::string& url = (*metadata)->revocation_endpoint;
    if (session.refresh_token.empty() || url.empty()) return;
    const absl::StatusOr<std::string> answer =
        Ask(*issuer, **metadata, url,
            {{"token", session.refresh_token}, {"token_type_hint", "refresh_token"}});
    if (!answer.ok()) {
      Log(LogLevel::kWarning, "auth.sign_in", "an issuer does not revoke a token",
          {{"issuer", issuer->config.issuer}, {"error", ErrorText(answer.status().message())}});
    }
  });
}

OidcSignIn::Issuer* OidcSignIn::Find(const std::string& name) const {
  for (const auto& issuer : issuers_)
    if (issuer->config.issuer == name) return issuer.get();
  return nullptr;
}

void OidcSignIn::Post(Issuer& issuer, Done<absl::Status> work) {
  if (sealer() == nullptr) return work(SessionsNotReady());
  if (issuer.waiting.fetch_add(1) >= kSignInsWaitingMax) {
    --issuer.waiting;
    return work(Unavailable("too many sign-ins wait for the issuer; try again"));
  }
  issuer.executor->Post(
      [this, &issuer, posted = clock_.Elapsed(), work = std::move(work)]() mutable {
        --issuer.waiting;
        const bool late = clock_.Elapsed() - posted > kSignInWaitMax;
        work(late ? Unavailable("the issuer is too slow; try again") : absl::OkStatus());
      });
}

absl::StatusOr<const OidcSignIn::Metadata*> OidcSignIn::Discover(Issuer& issuer) {
  const absl::Duration now = clock_.Elapsed();
  const absl::Duration age =
      issuer.metadata.has_value() ? now - issuer.read_at : absl::InfiniteDuration();
  if (age >= kJwksRefreshEvery && now - issuer.tried_at >= kJwksRetryAfter) {
    issuer.tried_at = now;
    const std::string& name = issuer.config.issuer;
    const absl::StatusOr<std::string> document =
        fetch_({.url = absl::StrCat(absl::StripSuffix(name, "/"), kDiscoveryPath),
                .ca = issuer.config.jwks_ca},
               stopping_);
    absl::StatusOr<Metadata> read =
        document.ok() ? Metadata::Parse(*document, name) : document.status();
    if (read.ok()) {
      issuer.metadata = *std::move(read);
      issuer.read_at = now;
    } else {
      Log(LogLevel::kWarning, "auth.sign_in", "cannot read the configuration of an issuer",
          {{"issuer", name}, {"error", ErrorText(read.status().message())}});
    }
  }
  if (!issuer.metadata.has_value() || now - issuer.read_at >= kJwksUsableFor)
    return Unavailable("the issuer does not say where to sign in; try again");
  return &*issuer.metadata;
}

absl::StatusOr<std::string> OidcSignIn::Ask(Issuer& issuer, const Metadata& metadata,
                                            const std::string& url, Parameters form) {
  const std::string& client = issuer.sign_in().client_id;
  ASSIGN_OR_RETURN(const std::string secret, issuer.sign_in().ReadSecret());
  IssuerRequest request{.url = url, .ca = issuer.config.jwks_ca};
  if (secret.empty() || metadata.secret_in_form) form.emplace_back("client_id", client);
  if (!secret.empty() && metadata.secret_in_form) form.emplace_back("client_secret", secret);
  if (!secret.empty() && !metadata.secret_in_form)
    request.user_password = absl::StrCat(UrlEncoded(client), ":", UrlEncoded(secret));
  request.form = FormText(form);
  return fetch_(request, stopping_);
}

absl::StatusOr<OidcSignIn::Tokens> OidcSignIn::RequestTokens(Issuer& issuer, Parameters form) {
  ASSIGN_OR_RETURN(const Metadata* const metadata, Discover(issuer));
  const auto failed = [&issuer](const absl::Status& error) {
    Log(LogLevel::kWarning, "auth.sign_in", "an issuer gives no tokens",
        {{"issuer", issuer.config.issuer}, {"error", ErrorText(error.message())}});
    return absl::IsUnauthenticated(error)
               ? Denied("SIGN_IN_REFUSED", "the issuer has refused to give tokens")
               : Unavailable("the issuer gives no tokens; try again");
  };
  const absl::StatusOr<std::string> document =
      Ask(issuer, *metadata, metadata->token_endpoint, std::move(form));
  if (!document.ok()) return failed(document.status());
  const std::optional<json> object = ParseJoseObject(*document);
  if (!object.has_value()) return failed(absl::UnavailableError("not a JSON object"));
  Tokens tokens{TextOrEmpty(*object, "id_token"), TextOrEmpty(*object, "refresh_token")};
  if (tokens.id_token.empty()) return failed(absl::UnauthenticatedError("no ID token"));
  return tokens;
}

void OidcSignIn::Verify(Issuer& issuer, std::string id_token, std::string nonce,
                        absl::Duration deadline, Done<absl::StatusOr<Caller>> done) {
  absl::StatusOr<Caller> caller = tokens_.VerifyIdToken(id_token, issuer.config.issuer,
                                                        issuer.sign_in().client_id, nonce, now_());
  if (!absl::IsUnavailable(caller.status()) || clock_.Elapsed() >= deadline)
    return done(std::move(caller));
  issuer.executor->PostAfter(
      kKeysLookEvery, [this, &issuer, id_token = std::move(id_token), nonce = std::move(nonce),
                       deadline, done = std::move(done)]() mutable {
        Verify(issuer, std::move(id_token), std::move(nonce), deadline, std::move(done));
      });
}

std::shared_ptr<const Sealer> OidcSignIn::sealer() const {
  absl::MutexLock lock(&mutex_);
  return sealer_;
}

absl::StatusOr<std::string> OidcSignIn::Seal(absl::string_view text,
                                             absl::string_view purpose) const {
  const std::shared_ptr<const Sealer> sealer = this->sealer();
  if (sealer == nullptr) return SessionsNotReady();
  ASSIGN_OR_RETURN(const std::string sealed, sealer->Seal(SecretText(text), purpose));
  return absl::WebSafeBase64Escape(sealed);
}

absl::StatusOr<std::string> OidcSignIn::Unseal(absl::string_view text,
                                               absl::string_view purpose) const {
  const std::shared_ptr<const Sealer> sealer = this->sealer();
  if (sealer == nullptr) return SessionsNotReady();
  const std::optional<std::string> sealed = DecodeBase64Url(text);
  if (text.size() > kPageSessionBytesMax || !sealed.has_value()) return InvalidSession();
  const absl::StatusOr<SecretText> opened = sealer->Open(*sealed, purpose);
  if (!opened.ok()) return InvalidSession();
  return std::string(opened->Reveal());
}

absl::StatusOr<std::string> OidcSignIn::SealSession(Session session) const {
  const Caller& caller = session.caller;
  json text = {{"issuer", session.issuer},
               {"principal", caller.principal},
               {"tenant", caller.tenant},
               {"role", static_cast<int>(caller.role)},
               {"expiry", absl::ToUnixMicros(std::min(caller.expire_time, session.end_time))},
               {"end", absl::ToUnixMicros(session.end_time)},
               {"refresh_token", session.refresh_token},
               {"id_token", session.id_token}};
  if (caller.issue_time != absl::InfinitePast())
    text["issued"] = absl::ToUnixMicros(caller.issue_time);
  for (const char* optional : {"id_token", "refresh_token", ""}) {
    ASSIGN_OR_RETURN(const std::string sealed, Seal(Dump(text), kSessionPurpose));
    if (kPageSessionPrefix.size() + sealed.size() <= kPageSessionBytesMax)
      return absl::StrCat(kPageSessionPrefix, sealed);
    text.erase(optional);
  }
  return InvalidSession();
}

absl::StatusOr<OidcSignIn::Session> OidcSignIn::ReadSession(absl::string_view text) const {
  if (!absl::ConsumePrefix(&text, kPageSessionPrefix)) return InvalidSession();
  ASSIGN_OR_RETURN(const std::string opened, Unseal(text, kSessionPurpose));
  const std::optional<json> object = ParseJoseObject(opened);
  if (!object.has_value()) return InvalidSession();
  Session session;
  session.issuer = TextOrEmpty(*object, "issuer");
  if (Find(session.issuer) == nullptr) return InvalidSession();
  session.caller.principal = TextOrEmpty(*object, "principal");
  session.caller.tenant = TextOrEmpty(*object, "tenant");
  session.caller.role = static_cast<v1::Access::Role>(object->value("role", 0));
  session.caller.expire_time = TimeOf(*object, "expiry", absl::InfinitePast());
  session.caller.issue_time = TimeOf(*object, "issued", absl::InfinitePast());
  session.end_time = TimeOf(*object, "end", absl::InfinitePast());
  session.id_token = TextOrEmpty(*object, "id_token");
  session.refresh_token = TextOrEmpty(*object, "refresh_token");
  return session;
}

}  // namespace escapement::auth
