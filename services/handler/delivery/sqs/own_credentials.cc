#include "services/handler/delivery/sqs/own_credentials.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/bounded_file.h"
#include "common/base/printable_text.h"

namespace escapement::handler {

absl::StatusOr<SqsCredentials> ParseSqsCredentials(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 2));
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (parts.size() < 2 || parts[0].empty() || parts[1].empty() || !printable)
    return absl::InvalidArgumentError("the target's credentials are malformed");
  return SqsCredentials{.access_key_id = std::string(parts[0]),
                        .secret_access_key = std::string(parts[1]),
                        .session_token = std::string(parts.size() == 3 ? parts[2] : "")};
}

namespace {

constexpr size_t kErrorBytesMax = 512;

std::string FormValue(absl::string_view value) {
  std::string encoded;
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || absl::StrContains("-._~", absl::string_view(&c, 1))) {
      encoded.push_back(c);
    } else {
      absl::StrAppend(&encoded, "%", absl::Hex(byte, absl::kZeroPad2));
    }
  }
  return encoded;
}

// The text of the first element with this name; "" if there is none. The elements that are read
// have no attributes, and their values need no escapes.
std::string ElementText(absl::string_view xml, absl::string_view name) {
  const std::string open = absl::StrCat("<", name, ">");
  const size_t begin = xml.find(open);
  if (begin == absl::string_view::npos) return "";
  xml.remove_prefix(begin + open.size());
  const size_t end = xml.find(absl::StrCat("</", name, ">"));
  if (end == absl::string_view::npos) return "";
  return std::string(absl::StripAsciiWhitespace(xml.substr(0, end)));
}

}  // namespace

std::string StsEndpoint(absl::string_view region) {
  if (region.empty()) return "https://sts.amazonaws.com/";
  return absl::StrCat("https://sts.", region, ".amazonaws.com",
                      absl::StartsWith(region, "cn-") ? ".cn" : "", "/");
}

std::string StsRequestBody(absl::string_view role_arn, absl::string_view session_name,
                           absl::string_view web_identity_token) {
  return absl::StrCat("Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=",
                      FormValue(role_arn), "&RoleSessionName=", FormValue(session_name),
                      "&WebIdentityToken=", FormValue(web_identity_token));
}

absl::StatusOr<StsCredentials> ReadStsAnswer(long http_status, absl::string_view body) {
  if (http_status != 200) {
    const std::string code = ElementText(body, "Code");
    if (code.empty()) return absl::UnavailableError(absl::StrCat("STS: HTTP ", http_status));
    return absl::PermissionDeniedError(
        CleanText(absl::StrCat("STS: ", code, ": ", ElementText(body, "Message")), kErrorBytesMax));
  }
  const std::string key = ElementText(body, "AccessKeyId");
  const std::string secret = ElementText(body, "SecretAccessKey");
  const std::string token = ElementText(body, "SessionToken");
  StsCredentials read;
  std::string ignored;
  // The same checks as for credentials of targets.
  absl::StatusOr<SqsCredentials> parsed = ParseSqsCredentials(absl::StrCat(key, ":", secret));
  if (!parsed.ok() || token.empty() || absl::StrContains(key, ":") ||
      !ParseSqsCredentials(absl::StrCat("a:b:", token)).ok() ||
      !absl::ParseTime(absl::RFC3339_full, ElementText(body, "Expiration"), &read.expires,
                       &ignored)) {
    return absl::UnavailableError("STS: the answer is malformed");
  }
  read.credentials = {.access_key_id = key, .secret_access_key = secret, .session_token = token};
  return read;
}

namespace {

constexpr size_t kTokenFileBytesMax = 64 << 10;
constexpr size_t kAnswerBytesMax = 64 << 10;
constexpr size_t kReasonBytesMax = 512;
constexpr absl::Duration kRefreshAtLatest = absl::Hours(12);

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : std::string(absl::StripAsciiWhitespace(value));
}

MonotonicMicros After(absl::Duration duration) { return MonotonicNow() + TimeoutMicros(duration); }

}  // namespace

AwsEnvironment AwsEnvironment::OfProcess() {
  AwsEnvironment environment = {.access_key_id = Variable("AWS_ACCESS_KEY_ID"),
                                .secret_access_key = Variable("AWS_SECRET_ACCESS_KEY"),
                                .session_token = Variable("AWS_SESSION_TOKEN"),
                                .token_file = Variable("AWS_WEB_IDENTITY_TOKEN_FILE"),
                                .role_arn = Variable("AWS_ROLE_ARN"),
                                .session_name = Variable("AWS_ROLE_SESSION_NAME"),
                                .region = Variable("AWS_REGION"),
                                .sts_endpoint = Variable("AWS_ENDPOINT_URL_STS")};
  if (environment.region.empty()) environment.region = Variable("AWS_DEFAULT_REGION");
  return environment;
}

// The request to STS.
class OwnCredentials::Fetch final : public Transfer {
 public:
  Fetch(OwnCredentials* owner, std::string url, std::string body)
      : owner_(owner), url_(std::move(url)), body_(std::move(body)) {}

  absl::Status Prepare(CURL* easy) override {
    curl_easy_setopt(easy, CURLOPT_URL, url_.c_str());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body_.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body_.size()));
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Fetch::OnBody);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
    return absl::OkStatus();
  }

  void OnEnd(CURL* easy, const TransferEnd& end) override {
    if (end.code != CURLE_OK) {
      return owner_->OnFetched(
          absl::UnavailableError(absl::StrCat("STS: ", CleanText(end.error, kReasonBytesMax))));
    }
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    owner_->OnFetched(ReadStsAnswer(status, answer_));
  }

 private:
  static size_t OnBody(char* data, size_t size, size_t count, void* self) {
    std::string& answer = static_cast<Fetch*>(self)->answer_;
    if (answer.size() + size * count > kAnswerBytesMax) return 0;
    answer.append(data, size * count);
    return size * count;
  }

  OwnCredentials* const owner_;
  const std::string url_;
  const std::string body_;
  std::string answer_;
};

OwnCredentials::OwnCredentials(AwsEnvironment environment, std::function<void()> on_fetched)
    : environment_(std::move(environment)), on_fetched_(std::move(on_fetched)) {
  absl::MutexLock lock(&mutex_);
  if (!environment_.access_key_id.empty() && !environment_.secret_access_key.empty()) {
    credentials_ = std::make_shared<SqsCredentials>(
        SqsCredentials{.access_key_id = environment_.access_key_id,
                       .secret_access_key = environment_.secret_access_key,
                       .session_token = environment_.session_token});
  } else if (!environment_.token_file.empty() && !environment_.role_arn.empty()) {
    fetch_at_ = 0;
  } else {
    why_none_ =
        "the environment of the handler has neither AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY "
        "nor AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN";
  }
}

bool OwnCredentials::known() const {
  absl::MutexLock lock(&mutex_);
  return credentials_ != nullptr || !why_none_.empty();
}

absl::StatusOr<std::shared_ptr<const SqsCredentials>> OwnCredentials::Current() const {
  absl::MutexLock lock(&mutex_);
  if (credentials_ != nullptr && absl::Now() < expires_) return credentials_;
  return absl::FailedPreconditionError(
      absl::StrCat("the handler has no credentials of its own: ",
                   why_none_.empty() ? "they have expired" : why_none_));
}

MonotonicMicros OwnCredentials::fetch_at() const {
  absl::MutexLock lock(&mutex_);
  return fetch_at_;
}

void OwnCredentials::FetchIfDue(TransferLoop& loop, MonotonicMicros now) {
  {
    absl::MutexLock lock(&mutex_);
    if (fetch_at_ > now) return;
    fetch_at_ = kNeverMicros;  // until OnFetched
  }
  // Read for each fetch: EKS replaces the file before its token expires.
  absl::StatusOr<std::string> token = ReadBoundedFile(environment_.token_file, kTokenFileBytesMax);
  if (!token.ok()) return OnFetched(token.status());
  loop.Start(std::make_unique<Fetch>(
                 this,
                 environment_.sts_endpoint.empty() ? StsEndpoint(environment_.region)
                                                   : environment_.sts_endpoint,
                 StsRequestBody(
                     environment_.role_arn,
                     environment_.session_name.empty() ? "escapement" : environment_.session_name,
                     absl::StripAsciiWhitespace(*token))),
             kFetchTimeout);
}

void OwnCredentials::OnFetched(absl::StatusOr<StsCredentials> fetched) {
  {
    absl::MutexLock lock(&mutex_);
    if (fetched.ok()) {
      credentials_ = std::make_shared<SqsCredentials>(std::move(fetched->credentials));
      expires_ = fetched->expires;
      why_none_.clear();
      fetch_at_ =
          After(std::clamp(expires_ - absl::Now() - kRefreshBefore, kFetchAgain, kRefreshAtLatest));
    } else {
      why_none_ = std::string(fetched.status().message());
      fetch_at_ = After(kFetchAgain);
    }
  }
  on_fetched_();
}

}  // namespace escapement::handler
