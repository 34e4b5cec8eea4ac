// Sign-ins with an issuer that is played by the fetcher: what a hostile issuer, browser or page
// could do.

#include "common/auth/oidc_sign_in.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/auth/testing/test_issuer.h"
#include "common/base/hash.h"
#include "common/sim/sim_runtime.h"
#include "common/status/errors.h"
#include "common/tls/testing/test_certificates.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::auth {
namespace oidc_sign_in_test {

using ::escapement::testing::Encoded;
using ::escapement::testing::KeySet;
using ::escapement::testing::SignedToken;
using ::escapement::testing::SigningKey;
using ::escapement::testing::TokenBy;
using ::escapement::testing::WriteFile;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;
using Parameters = std::map<std::string, std::string>;

constexpr char kLogin[] = "https://login";
constexpr char kOther[] = "https://other";
const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

// The decoded parameters of a query or form.
Parameters Decoded(absl::string_view text) {
  Parameters parameters;
  for (absl::string_view part : absl::StrSplit(text, '&')) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    std::string value;
    for (size_t i = 0; i < pair.second.size(); ++i) {
      if (pair.second[i] != '%') {
        value.push_back(pair.second[i]);
      } else {
        value += absl::HexStringToBytes(pair.second.substr(i + 1, 2));
        i += 2;
      }
    }
    parameters[pair.first] = value;
  }
  return parameters;
}

// The simulation's, on whose clock a fetch can take time.
class SlowRuntime final : public Runtime, public Clock {
 public:
  explicit SlowRuntime(Runtime& base) : base_(base) {}

  void Pass(absl::Duration duration) { passed_ += duration; }

  absl::Duration Elapsed() const override { return base_.clock().Elapsed() + passed_; }
  absl::Time WallNow() const override { return base_.clock().WallNow() + passed_; }
  Clock& clock() override { return *this; }
  Random& random() override { return base_.random(); }
  std::shared_ptr<Executor> NewExecutor(std::string name) override {
    return base_.NewExecutor(std::move(name));
  }

 private:
  Runtime& base_;
  absl::Duration passed_;
};

class OidcSignInTest : public ::testing::Test {
 protected:
  OidcSignInTest() {
    const std::string secret = absl::StrCat(::testing::TempDir(), "/client.secret");
    WriteFile(secret, "s3cr:t/\n");
    Configure(absl::StrCat(R"(
issuers:
- issuer: https://login
  audience: escapement
  jwks_url: https://login/keys
  tenant_claim: [org]
  role_claim: [groups]
  roles: {sre: admin, all: viewer}
  sign_in:
    client_id: the page
    client_secret_file: )",
                           secret, R"(
    origin: https://ops.example
    name: Example
    scopes: [offline_access]
    parameters: {prompt: consent}
- issuer: https://other
  audience: escapement
  jwks_url: https://login/keys
  tenant: '*'
  role: admin
  sign_in: {client_id: page2, origin: 'https://ops.example'}
)"));
  }

  void Configure(const std::string& file) {
    const auto config = ParseIssuerConfig(file, "f");
    ASSERT_TRUE(config.ok()) << config.status();
    config_ = *config;
    tokens_ = std::make_unique<IssuerTokens>(
        config_, runtime_, [this](const IssuerRequest&, const std::atomic<bool>&) {
          return absl::StatusOr<std::string>(KeySet(keys_));
        });
    tokens_->Start();
    runtime_.RunUntilIdle();
    sign_in_ = NewSignIn();
    sign_in_->SetKey(std::string(32, 'k'));
  }

  std::unique_ptr<OidcSignIn> NewSignIn() {
    return std::make_unique<OidcSignIn>(
        config_, *tokens_, slow_, [this] { return now_; },
        [this](const IssuerRequest& request, const std::atomic<bool>&) { return Fetch(request); });
  }

  // The issuer.
  absl::StatusOr<std::string> Fetch(const IssuerRequest& request) {
    fetches_.push_back(request);
    if (silence_ > absl::ZeroDuration()) {
      slow_.Pass(silence_);
      return absl::UnavailableError("timeout");
    }
    if (request.form.empty()) return discovery_[request.url].dump();
    const Parameters form = Decoded(request.form);
    if (request.url == "https://login/revoke") {
      EXPECT_EQ(form.at("token"), refresh_token_);
      refresh_token_ = "none";
      return std::string();
    }
    if (form.at("grant_type") == "authorization_code") {
      // As RFC 7636 asks, and each code once.
      Sha256 hash;
      hash.Add(form.at("code_verifier"));
      const auto challenge = codes_.find(form.at("code"));
      if (challenge == codes_.end() ||
          absl::WebSafeBase64Escape(hash.Finish()) != challenge->second)
        return absl::UnauthenticatedError("the answer has the status 400");
      codes_.erase(challenge);
    } else if (form.at("refresh_token") != refresh_token_) {
      return absl::UnauthenticatedError("the answer has the status 400");
    }
    if (answer_.has_value()) return *answer_;
    refresh_token_ = absl::StrCat("refresh", ++refreshes_, refresh_padding_);
    return Json({{"id_token", id_token_.empty() ? TokenBy(key_, claims_) : id_token_},
                 {"refresh_token", refresh_token_},
                 {"access_token", "opaque"},
                 {"token_type", "Bearer"}})
        .dump();
  }

  absl::StatusOr<OidcSignIn::Begun> Begin(const std::string& issuer = kLogin) {
    std::optional<absl::StatusOr<OidcSignIn::Begun>> begun;
    sign_in_->Begin(issuer, "/ui/team-a", [&](auto result) { begun = std::move(result); });
    runtime_.RunUntilIdle();
    EXPECT_TRUE(begun.has_value());
    if (!begun->ok()) return begun->status();
    request_ =
        Decoded(absl::string_view((*begun)->location).substr((*begun)->location.find('?') + 1));
    claims_["nonce"] = request_["nonce"];
    codes_["code1"] = request_["code_challenge"];
    return *begun;
  }
  // As the issuer redirects if the person consents.
  OidcSignIn::Answer GoodAnswer() {
    return {.state = request_["state"], .issuer = kLogin, .error = "", .code = "code1"};
  }
  OidcSignIn::Finished Finish(const std::string& cookie, OidcSignIn::Answer answer) {
    std::optional<OidcSignIn::Finished> finished;
    sign_in_->Finish(cookie, std::move(answer), [&](auto result) { finished = std::move(result); });
    runtime_.AdvanceBy(absl::Seconds(20));
    EXPECT_TRUE(finished.has_value());
    return *std::move(finished);
  }
  std::string ReasonOf(const OidcSignIn::Finished& finished) {
    return ErrorReason(finished.session.status());
  }
  std::string SignedIn() {
    const auto begun = Begin();
    EXPECT_TRUE(begun.ok()) << begun.status();
    const auto finished = Finish(begun->cookie, GoodAnswer());
    EXPECT_TRUE(finished.session.ok()) << finished.session.status();
    return finished.session.value_or("");
  }
  // The reason why a sign-in fails whose issuer gives this ID token.
  std::string ReasonWith(const std::function<void()>& change) {
    const auto begun = Begin();
    change();
    return ReasonOf(Finish(begun->cookie, GoodAnswer()));
  }
  absl::StatusOr<std::string> Renew(const std::string& session) {
    std::optional<absl::StatusOr<std::string>> renewed;
    sign_in_->Renew(session, [&](auto result) { renewed = std::move(result); });
    runtime_.AdvanceBy(absl::Seconds(20));
    EXPECT_TRUE(renewed.has_value());
    return *std::move(renewed);
  }
  std::string SignOut(const std::string& session) {
    std::optional<std::string> next;
    sign_in_->SignOut(session, [&](std::string result) { next = std::move(result); });
    runtime_.RunUntilIdle();
    EXPECT_TRUE(next.has_value());
    return next.value_or("");
  }

  static Json Discovery(const std::string& issuer) {
    return {{"issuer", issuer},
            {"authorization_endpoint", issuer + "/authorize?theme=dark"},
            {"token_endpoint", issuer + "/token"},
            {"end_session_endpoint", issuer + "/end"}};
  }

  sim::SimRuntime runtime_{1};
  SlowRuntime slow_{runtime_};
  absl::Time now_ = kNow;
  const SigningKey key_ = SigningKey::Ec("login");
  std::vector<SigningKey> keys_ = {key_};

  // The issuer's answers, and the requests that it has got.
  std::map<std::string, Json> discovery_ = {
      {"https://login/.well-known/openid-configuration", Discovery(kLogin)},
      {"https://other/.well-known/openid-configuration", Discovery(kOther)}};
  Json& login_discovery_ = discovery_["https://login/.well-known/openid-configuration"];
  std::map<std::string, std::string> codes_;  // with their challenges
  Json claims_ = {{"iss", kLogin},
                  {"aud", "the page"},
                  {"sub", "alice"},
                  {"iat", absl::ToUnixSeconds(kNow)},
                  {"exp", absl::ToUnixSeconds(kNow + absl::Minutes(5))},
                  {"org", "team-a"},
                  {"groups", {"all", "sre"}}};
  std::string id_token_;  // instead of the one with claims_
  std::optional<absl::StatusOr<std::string>> answer_;
  std::string refresh_token_;
  std::string refresh_padding_;
  int refreshes_ = 0;
  absl::Duration silence_;
  std::vector<IssuerRequest> fetches_;

  Parameters request_;  // parameters of the last Begin
  std::vector<IssuerConfig> config_;
  std::unique_ptr<IssuerTokens> tokens_;
  std::unique_ptr<OidcSignIn> sign_in_;
};

TEST_F(OidcSignInTest, CodeBecomesASessionOfTheClaims) {
  const auto begun = Begin();
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_THAT(begun->location,
              StartsWith("https://login/authorize?theme=dark&response_type=code&"));
  EXPECT_EQ(request_["client_id"], "the page");
  EXPECT_EQ(request_["redirect_uri"], "https://ops.example/ui/signed-in");
  EXPECT_EQ(request_["scope"], "openid offline_access");
  EXPECT_EQ(request_["prompt"], "consent");
  EXPECT_EQ(request_["code_challenge_method"], "S256");
  EXPECT_EQ(request_["code_challenge"].size(), 43u);
  for (const char* secret : {"state", "nonce"}) {
    EXPECT_EQ(request_[secret].size(), 43u);
    EXPECT_THAT(begun->cookie, Not(HasSubstr(request_[secret])));
  }
  const auto finished = Finish(begun->cookie, GoodAnswer());
  ASSERT_TRUE(finished.session.ok()) << finished.session.status();
  EXPECT_EQ(finished.return_to, "/ui/team-a");
  EXPECT_THAT(*finished.session, StartsWith("page_"));
  // Form-encoded, as RFC 6749 asks.
  EXPECT_EQ(fetches_.back().user_password, "the%20page:s3cr%3At%2F");
  EXPECT_THAT(fetches_.back().form, Not(HasSubstr("client_secret")));

  const auto caller = sign_in_->Open(*finished.session);
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->principal, "jwt/https://login/alice");
  EXPECT_EQ(caller->tenant, "team-a");
  EXPECT_EQ(caller->role, v1::Access::ADMIN);
  EXPECT_EQ(caller->expire_time, kNow + absl::Minutes(5));
  EXPECT_EQ(caller->issue_time, kNow);
}

TEST_F(OidcSignInTest, AnotherMasterFinishesTheSignIn) {
  const auto begun = Begin();
  sign_in_ = NewSignIn();
  sign_in_->SetKey(std::string(32, 'k'));
  EXPECT_TRUE(Finish(begun->cookie, GoodAnswer()).session.ok());
}

TEST_F(OidcSignInTest, StateMustBeThatOfTheBrowser) {
  const auto mine = Begin();
  const OidcSignIn::Answer answer_of_mine = GoodAnswer();
  const auto others = Begin();
  OidcSignIn::Answer answer = GoodAnswer();
  const size_t fetches = fetches_.size();
  // A link with the attacker's code in the victim's browser, which has begun a sign-in or has not.
  EXPECT_EQ(ReasonOf(Finish(mine->cookie, answer)), "SIGN_IN_STATE");
  EXPECT_EQ(ReasonOf(Finish("", answer)), "SIGN_IN_STATE");
  EXPECT_EQ(ReasonOf(Finish(others->cookie, answer_of_mine)), "SIGN_IN_STATE");
  for (const std::string& state : {std::string(), answer.state.substr(1), answer.state + "x"}) {
    answer.state = state;
    const auto finished = Finish(others->cookie, answer);
    EXPECT_EQ(ReasonOf(finished), "SIGN_IN_STATE") << state;
    EXPECT_EQ(finished.return_to, "");
  }
  EXPECT_EQ(fetches_.size(), fetches);  // the issuer has seen no code
}

TEST_F(OidcSignInTest, SignInEndsAfterTenMinutes) {
  const auto begun = Begin();
  now_ += kSignInMax;
  EXPECT_EQ(ReasonOf(Finish(begun->cookie, GoodAnswer())), "SIGN_IN_STATE");
  now_ -= absl::Microseconds(1);
  claims_["exp"] = absl::ToUnixSeconds(now_ + absl::Minutes(5));
  EXPECT_TRUE(Finish(begun->cookie, GoodAnswer()).session.ok());
}

TEST_F(OidcSignInTest, CodeWorksOnceAndOnlyWithItsVerifier) {
  const auto first = Begin();
  const OidcSignIn::Answer answer = GoodAnswer();
  ASSERT_TRUE(Finish(first->cookie, answer).session.ok());
  // The whole answer again, by somebody who has kept the cookie.
  EXPECT_EQ(ReasonOf(Finish(first->cookie, answer)), "SIGN_IN_REFUSED");
  // A code of another sign-in.
  const auto second = Begin();
  codes_["code1"] = "of-another-verifier";
  EXPECT_EQ(ReasonOf(Finish(second->cookie, GoodAnswer())), "SIGN_IN_REFUSED");
}

TEST_F(OidcSignInTest, IssuerOfTheAnswerMustBeTheOneThatWasAsked) {
  auto begun = Begin();
  OidcSignIn::Answer answer = GoodAnswer();
  const size_t fetches = fetches_.size();
  answer.issuer = kOther;
  EXPECT_EQ(ReasonOf(Finish(begun->cookie, answer)), "SIGN_IN_STATE");
  EXPECT_EQ(fetches_.size(), fetches);
  answer.issuer = kLogin;
  EXPECT_TRUE(Finish(begun->cookie, answer).session.ok());

  // An issuer could have sent the person on to the other one, whose code this then is.
  begun = Begin();
  answer = GoodAnswer();
  answer.issuer = "";
  EXPECT_EQ(ReasonOf(Finish(begun->cookie, answer)), "SIGN_IN_STATE");

  config_.pop_back();
  sign_in_ = NewSignIn();
  sign_in_->SetKey(std::string(32, 'k'));
  begun = Begin();
  answer.state = request_["state"];
  EXPECT_TRUE(Finish(begun->cookie, answer).session.ok()) << "there is no other issuer";
  login_discovery_["authorization_response_iss_parameter_supported"] = true;
  runtime_.AdvanceBy(kJwksRefreshEvery);
  begun = Begin();
  answer.state = request_["state"];
  EXPECT_EQ(ReasonOf(Finish(begun->cookie, answer)), "SIGN_IN_STATE");
  EXPECT_TRUE(Finish(begun->cookie, GoodAnswer()).session.ok());
}

TEST_F(OidcSignInTest, ErrorsOfTheIssuerAreNotQuoted) {
  const auto begun = Begin();
  OidcSignIn::Answer answer = GoodAnswer();
  answer.error = "<script>alert(1)</script>";
  const auto finished = Finish(begun->cookie, answer);
  EXPECT_EQ(ReasonOf(finished), "SIGN_IN_REFUSED");
  EXPECT_THAT(finished.session.status().ToString(), Not(HasSubstr("script")));
  EXPECT_EQ(finished.return_to, "/ui/team-a");
  answer.error = "";
  answer.code = "";
  EXPECT_EQ(ReasonOf(Finish(begun->cookie, answer)), "SIGN_IN_REFUSED");
}

TEST_F(OidcSignInTest, IdTokenMustBeForThisSignIn) {
  EXPECT_EQ(ReasonWith([&] { claims_["nonce"] = "other"; }), "CREDENTIAL_INVALID");
  EXPECT_EQ(ReasonWith([&] { claims_.erase("nonce"); }), "CREDENTIAL_INVALID");
  EXPECT_EQ(ReasonWith([&] { claims_["iss"] = kOther; }), "CREDENTIAL_INVALID");
  EXPECT_EQ(ReasonWith([&] { claims_["iss"] = "https://unknown"; }), "CREDENTIAL_INVALID");
  claims_["iss"] = kLogin;
  EXPECT_EQ(ReasonWith([&] { claims_["exp"] = absl::ToUnixSeconds(now_); }), "CREDENTIAL_EXPIRED");
}

TEST_F(OidcSignInTest, IdTokenMustBeForThisClient) {
  // The audience of bearer tokens is not that of the page.
  for (const Json& audience : {Json("escapement"), Json("page2"), Json::array({"escapement"}),
                               Json::array({"the page", "escapement"})}) {
    EXPECT_EQ(ReasonWith([&] { claims_["aud"] = audience; }), "CREDENTIAL_INVALID") << audience;
  }
  EXPECT_EQ(ReasonWith([&] { claims_["azp"] = "other"; }), "CREDENTIAL_INVALID");
  EXPECT_EQ(ReasonWith([&] { claims_["azp"] = "the page"; }), "");
  EXPECT_EQ(ReasonWith([&] {
              claims_["aud"] = "the page";
              claims_["azp"] = "other";
            }),
            "CREDENTIAL_INVALID");
}

TEST_F(OidcSignInTest, IdTokenMustBeSignedByTheIssuer) {
  EXPECT_EQ(ReasonWith([&] { id_token_ = TokenBy(SigningKey::Ec("login"), claims_); }),
            "CREDENTIAL_INVALID");
  EXPECT_EQ(ReasonWith([&] {
              id_token_ = absl::StrCat(Encoded({{"alg", "none"}}), ".", Encoded(claims_), ".");
            }),
            "CREDENTIAL_MALFORMED");
  EXPECT_EQ(ReasonWith([&] {
              id_token_ = SignedToken(key_, {{"alg", "HS256"}, {"kid", "login"}}, claims_);
            }),
            "CREDENTIAL_MALFORMED");
}

TEST_F(OidcSignInTest, AccountWithoutRightsGetsNoSession) {
  EXPECT_EQ(ReasonWith([&] { claims_["groups"] = {"guests"}; }), "NO_RIGHTS");
  claims_["groups"] = {"all"};
  EXPECT_EQ(ReasonWith([&] { claims_["org"] = "*"; }), "NO_RIGHTS");
}

TEST_F(OidcSignInTest, KeyThatIsNewIsReadBeforeTheVerdict) {
  runtime_.AdvanceBy(kJwksRetryAfter);
  const SigningKey next = SigningKey::Ec("next");
  keys_.push_back(next);
  EXPECT_EQ(ReasonWith([&] { id_token_ = TokenBy(next, claims_); }), "");
}

TEST_F(OidcSignInTest, ChangedCookiesAreRefused) {
  const auto begun = Begin();
  const std::string session = *Finish(begun->cookie, GoodAnswer()).session;
  const auto reason = [this](const std::string& text) {
    return ErrorReason(sign_in_->Open(text).status());
  };
  for (size_t i = 0; i < session.size(); i += 7) {
    std::string changed = session;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_EQ(reason(changed), "CREDENTIAL_INVALID") << i;
  }
  for (size_t size = 0; size < session.size(); size += 11)
    EXPECT_EQ(reason(session.substr(0, size)), "CREDENTIAL_INVALID") << size;
  EXPECT_EQ(reason(session + "A"), "CREDENTIAL_INVALID");
  EXPECT_EQ(reason("page_" + std::string(kPageSessionBytesMax, 'A')), "CREDENTIAL_INVALID");
  // The cookie of a sign-in is no session, and a session is no cookie of a sign-in.
  EXPECT_EQ(reason("page_" + begun->cookie), "CREDENTIAL_INVALID");
  EXPECT_EQ(ReasonOf(Finish(session.substr(5), GoodAnswer())), "SIGN_IN_STATE");
  EXPECT_EQ(sign_in_->RenewAfter("page_x"), std::nullopt);
  EXPECT_EQ(ErrorReason(Renew("page_x").status()), "CREDENTIAL_INVALID");
  EXPECT_EQ(SignOut("page_x"), "");
}

TEST_F(OidcSignInTest, CookiesOfAnotherInstallationAreRefused) {
  const auto begun = Begin();
  const std::string session = *Finish(begun->cookie, GoodAnswer()).session;
  sign_in_ = NewSignIn();
  EXPECT_EQ(ErrorReason(sign_in_->Open(session).status()), "NOT_READY");
  EXPECT_EQ(ErrorReason(Begin().status()), "NOT_READY");
  sign_in_->SetKey(std::string(32, 'o'));
  EXPECT_EQ(ErrorReason(sign_in_->Open(session).status()), "CREDENTIAL_INVALID");
  EXPECT_EQ(ReasonOf(Finish(begun->cookie, GoodAnswer())), "SIGN_IN_STATE");
}

TEST_F(OidcSignInTest, ReaderOfTheStoreNeedsTheClientsSecretToo) {
  const std::string session = SignedIn();
  WriteFile(config_[0].sign_in->client_secret_file, "another");
  sign_in_ = NewSignIn();
  sign_in_->SetKey(std::string(32, 'k'));
  EXPECT_EQ(ErrorReason(sign_in_->Open(session).status()), "CREDENTIAL_INVALID");
}

TEST_F(OidcSignInTest, SessionsEndWithTheirIssuer) {
  const std::string session = SignedIn();
  config_[0].issuer = "https://login/new";
  sign_in_ = NewSignIn();
  sign_in_->SetKey(std::string(32, 'k'));
  EXPECT_EQ(ErrorReason(sign_in_->Open(session).status()), "CREDENTIAL_INVALID");
  EXPECT_TRUE(absl::IsNotFound(Begin().status()));
}

TEST_F(OidcSignInTest, SessionEndsWithTheIdToken) {
  const std::string session = SignedIn();
  now_ = kNow + absl::Minutes(5) - absl::Microseconds(1);
  EXPECT_TRUE(sign_in_->Open(session).ok());
  now_ += absl::Microseconds(1);
  EXPECT_EQ(ErrorReason(sign_in_->Open(session).status()), "CREDENTIAL_EXPIRED");
  now_ = absl::InfinitePast();
  EXPECT_EQ(ErrorReason(sign_in_->Open(session).status()), "NOT_READY");
}

TEST_F(OidcSignInTest, RefreshTokenRenewsTheSessionUntilTwelveHours) {
  std::string session = SignedIn();
  EXPECT_EQ(sign_in_->RenewAfter(session), absl::Minutes(5) - kRenewBefore);
  now_ += absl::Minutes(5);
  EXPECT_EQ(sign_in_->RenewAfter(session), absl::ZeroDuration());
  claims_.erase("nonce");  // issuers leave it out here
  // Also one that has ended, for a machine that was asleep.
  for (now_ = kNow + absl::Hours(1); now_ < kNow + kPageSessionMax; now_ += absl::Hours(1)) {
    claims_["exp"] = absl::ToUnixSeconds(now_ + absl::Hours(2));
    claims_["groups"] = {"all"};
    const auto renewed = Renew(session);
    ASSERT_TRUE(renewed.ok()) << renewed.status();
    session = *renewed;
    EXPECT_EQ(sign_in_->Open(session)->role, v1::Access::VIEWER);  // the issuer's present claims
    EXPECT_EQ(sign_in_->Open(session)->expire_time,
              std::min(now_ + absl::Hours(2), kNow + kPageSessionMax));
  }
  EXPECT_EQ(sign_in_->RenewAfter(session), std::nullopt);
  EXPECT_EQ(ErrorReason(Renew(session).status()), "CREDENTIAL_EXPIRED");
}

TEST_F(OidcSignInTest, RenewalIsRefusedIfTheIssuerRefuses) {
  const std::string session = SignedIn();
  refresh_token_ = "another";
  EXPECT_EQ(ErrorReason(Renew(session).status()), "SIGN_IN_REFUSED");
  answer_ = absl::UnavailableError("maintenance");
  refresh_token_ = "refresh1";
  EXPECT_EQ(ErrorReason(Renew(session).status()), "ISSUER_UNAVAILABLE");
  answer_.reset();
  claims_["sub"] = "mallory";
  EXPECT_EQ(ErrorReason(Renew(session).status()), "CREDENTIAL_INVALID");
}

TEST_F(OidcSignInTest, LargeTokensAreLeftOutOfTheCookie) {
  claims_["padding"] = std::string(2000, 'x');
  const std::string without_id_token = SignedIn();
  EXPECT_LE(without_id_token.size(), kPageSessionBytesMax);
  EXPECT_TRUE(sign_in_->RenewAfter(without_id_token).has_value());
  EXPECT_THAT(SignOut(without_id_token), Not(HasSubstr("id_token_hint")));
  refresh_padding_ = std::string(3000, 'x');
  const std::string without_both = SignedIn();
  EXPECT_LE(without_both.size(), kPageSessionBytesMax);
  EXPECT_FALSE(sign_in_->RenewAfter(without_both).has_value());
  EXPECT_EQ(ErrorReason(Renew(without_both).status()), "CREDENTIAL_EXPIRED");
  EXPECT_TRUE(sign_in_->Open(without_both).ok());
}

TEST_F(OidcSignInTest, SignOutLeadsToTheIssuer) {
  const std::string next = SignOut(SignedIn());
  EXPECT_THAT(next, StartsWith("https://login/end?"));
  const Parameters parameters = Decoded(absl::string_view(next).substr(next.find('?') + 1));
  // The signature differs each time.
  const std::string token = TokenBy(key_, claims_);
  EXPECT_THAT(parameters.at("id_token_hint"), StartsWith(token.substr(0, token.rfind('.') + 1)));
  EXPECT_EQ(parameters.at("post_logout_redirect_uri"), "https://ops.example/ui");
  EXPECT_EQ(parameters.at("client_id"), "the page");
}

TEST_F(OidcSignInTest, IssuerWithoutAnEndOfSessionsIsLeftAlone) {
  login_discovery_.erase("end_session_endpoint");
  EXPECT_EQ(SignOut(SignedIn()), "");
}

TEST_F(OidcSignInTest, SignOutRevokesWhatRenewsTheSession) {
  const std::string kept = SignedIn();
  SignOut(kept);
  EXPECT_TRUE(Renew(kept).ok()) << "the issuer revokes nothing";

  login_discovery_["revocation_endpoint"] = "https://login/revoke";
  sign_in_ = NewSignIn();
  sign_in_->SetKey(std::string(32, 'k'));
  const std::string copied = SignedIn();
  EXPECT_THAT(SignOut(copied), StartsWith("https://login/end?"));
  EXPECT_EQ(fetches_.back().url, "https://login/revoke");
  EXPECT_EQ(fetches_.back().user_password, "the%20page:s3cr%3At%2F");
  EXPECT_FALSE(Renew(copied).ok());
}

TEST_F(OidcSignInTest, APersonHasOneRenewalAtATime) {
  const std::string session = SignedIn();
  std::vector<absl::Status> renewed;
  for (int i = 0; i < 3; ++i)
    sign_in_->Renew(session, [&](auto result) { renewed.push_back(result.status()); });
  runtime_.AdvanceBy(absl::Seconds(20));
  ASSERT_EQ(renewed.size(), 3u);
  EXPECT_TRUE(absl::IsUnavailable(renewed[0])) << renewed[0];
  EXPECT_TRUE(absl::IsUnavailable(renewed[1])) << renewed[1];
  EXPECT_TRUE(renewed[2].ok()) << renewed[2];
}

TEST_F(OidcSignInTest, ConfigurationMustNameTheIssuerAndSafeEndpoints) {
  const Json good = login_discovery_;
  const auto fails = [this](const char* name, const Json& value) {
    login_discovery_[name] = value;
    sign_in_ = NewSignIn();
    sign_in_->SetKey(std::string(32, 'k'));
    return ErrorReason(Begin().status()) == "ISSUER_UNAVAILABLE";
  };
  for (const char* bad : {"https://evil", "https://login/", ""}) {
    EXPECT_TRUE(fails("issuer", bad)) << bad;
    login_discovery_ = good;
  }
  for (const char* endpoint : {"authorization_endpoint", "token_endpoint"}) {
    for (const Json& bad :
         {Json("http://login/x"), Json("javascript:alert(1)"), Json("file:///x"), Json("/relative"),
          Json(""), Json(7), Json("https://u:p@login/x"),
          Json(std::string("https://login/\0\r\nX: y", 20)), Json("http://127.0.0.1:15000/")}) {
      EXPECT_TRUE(fails(endpoint, bad)) << bad;
      login_discovery_ = good;
    }
  }
  EXPECT_FALSE(fails("issuer", kLogin));
}

TEST_F(OidcSignInTest, AnswersThatAreNoTokensFail) {
  for (const char* answer : {"", "[]", "<html>", R"({"id_token":7})", R"({"access_token":"x"})",
                             R"({"id_token":"a","id_token":"b"})"}) {
    const std::string reason = ReasonWith([&] { answer_ = std::string(answer); });
    EXPECT_TRUE(reason == "ISSUER_UNAVAILABLE" || reason == "SIGN_IN_REFUSED") << answer;
    answer_.reset();
  }
}

TEST_F(OidcSignInTest, SlowIssuerIsAskedForTenSecondsAtMost) {
  silence_ = kIssuerFetchTimeout;
  std::vector<std::string> reasons;
  for (int i = 0; i < kSignInsWaitingMax + 5; ++i) {
    sign_in_->Begin(kLogin, "/ui",
                    [&](auto begun) { reasons.push_back(std::string(begun.status().message())); });
  }
  // Those beyond the bound are refused at once.
  EXPECT_EQ(reasons.size(), 5u);
  EXPECT_THAT(reasons[0], HasSubstr("too many"));
  runtime_.RunUntilIdle();
  EXPECT_EQ(reasons.size(), static_cast<size_t>(kSignInsWaitingMax) + 5);
  // A failure counts for all that wait.
  EXPECT_EQ(fetches_.size(), 1u);
  // Another issuer does not wait for it.
  silence_ = absl::ZeroDuration();
  EXPECT_TRUE(Begin(kOther).ok());
}

TEST_F(OidcSignInTest, CallThatHasWaitedTooLongIsRefused) {
  std::vector<std::string> sessions;
  for (const char* person : {"alice", "bob", "carol"}) {
    claims_["sub"] = person;
    sessions.push_back(SignedIn());
  }
  silence_ = absl::Seconds(6);
  std::vector<std::string> reasons;
  for (const std::string& session : sessions) {
    sign_in_->Renew(
        session, [&](auto renewed) { reasons.push_back(std::string(renewed.status().message())); });
  }
  runtime_.RunUntilIdle();
  ASSERT_EQ(reasons.size(), 3u);
  EXPECT_THAT(reasons[0], HasSubstr("gives no tokens"));
  EXPECT_THAT(reasons[2], HasSubstr("too slow"));
}

TEST_F(OidcSignInTest, FormerConfigurationIsUsedWhileTheIssuerFails) {
  ASSERT_TRUE(Begin().ok());
  const Json good = login_discovery_;
  login_discovery_ = "maintenance";
  runtime_.AdvanceBy(kJwksRefreshEvery);
  EXPECT_TRUE(Begin().ok());
  runtime_.AdvanceBy(kJwksUsableFor);
  EXPECT_EQ(ErrorReason(Begin().status()), "ISSUER_UNAVAILABLE");
  login_discovery_ = good;
  runtime_.AdvanceBy(kJwksRetryAfter);
  EXPECT_TRUE(Begin().ok());
}

TEST_F(OidcSignInTest, SecretGoesIntoTheFormIfTheIssuerWantsItThere) {
  login_discovery_["token_endpoint_auth_methods_supported"] = {"client_secret_post"};
  SignedIn();
  EXPECT_EQ(fetches_.back().user_password, "");
  EXPECT_EQ(Decoded(fetches_.back().form)["client_secret"], "s3cr:t/");
}

}  // namespace oidc_sign_in_test
}  // namespace escapement::auth
