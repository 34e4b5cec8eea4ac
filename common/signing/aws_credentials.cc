#include "common/signing/aws_credentials.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/bounded_file.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/base/xml_text.h"
#include "common/signing/aws_signer.h"

namespace escapement {
namespace {

constexpr size_t kErrorBytesMax = 512;
constexpr size_t kTokenFileBytesMax = 64 << 10;
constexpr absl::Duration kRefreshAtLatest = absl::Hours(12);

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : std::string(absl::StripAsciiWhitespace(value));
}

std::string StrippedText(absl::string_view xml, absl::string_view name) {
  return std::string(absl::StripAsciiWhitespace(XmlText(xml, name)));
}

bool IsHeaderWord(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); });
}

}  // namespace

bool IsUsable(const AwsCredentials& credentials) {
  return !credentials.access_key_id.empty() && !credentials.secret_access_key.empty() &&
         IsHeaderWord(credentials.access_key_id) && IsHeaderWord(credentials.secret_access_key) &&
         IsHeaderWord(credentials.session_token);
}

AwsEnvironment AwsEnvironment::OfProcess() {
  AwsEnvironment environment = {.access_key_id = Variable("AWS_ACCESS_KEY_ID"),
                                .secret_access_key = Variable("AWS_SECRET_ACCESS_KEY"),
                                .session_token = Variable("AWS_SESSION_TOKEN"),
                                .token_file = Variable("AWS_WEB_IDENTITY_TOKEN_FILE"),
                                .role_arn = Variable("AWS_ROLE_ARN"),
                                .session_name = Variable("AWS_ROLE_SESSION_NAME"),
                                .region = Variable("AWS_REGION"),
                                .s3_endpoint = Variable("AWS_ENDPOINT_URL_S3"),
                                .sts_endpoint = Variable("AWS_ENDPOINT_URL_STS")};
  if (environment.region.empty()) environment.region = Variable("AWS_DEFAULT_REGION");
  return environment;
}

std::string StsEndpoint(absl::string_view region) {
  if (region.empty()) return "https://sts.amazonaws.com/";
  return absl::StrCat("https://sts.", region, ".", AwsDomainOf(region), "/");
}

std::string StsRequestBody(absl::string_view role_arn, absl::string_view session_name,
                           absl::string_view web_identity_token) {
  return absl::StrCat("Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=",
                      AwsEncode(role_arn), "&RoleSessionName=", AwsEncode(session_name),
                      "&WebIdentityToken=", AwsEncode(web_identity_token));
}

absl::StatusOr<StsCredentials> ReadStsAnswer(long http_status, absl::string_view body) {
  if (http_status != 200) {
    const std::string code = StrippedText(body, "Code");
    if (code.empty()) return absl::UnavailableError(absl::StrCat("STS: HTTP ", http_status));
    return absl::PermissionDeniedError(CleanText(
        absl::StrCat("STS: ", code, ": ", StrippedText(body, "Message")), kErrorBytesMax));
  }
  StsCredentials read;
  read.credentials = {.access_key_id = StrippedText(body, "AccessKeyId"),
                      .secret_access_key = StrippedText(body, "SecretAccessKey"),
                      .session_token = StrippedText(body, "SessionToken")};
  std::string ignored;
  if (!IsUsable(read.credentials) || read.credentials.session_token.empty() ||
      absl::StrContains(read.credentials.access_key_id, ":") ||
      !absl::ParseTime(absl::RFC3339_full, StrippedText(body, "Expiration"), &read.expires,
                       &ignored)) {
    return absl::UnavailableError("STS: the answer is malformed");
  }
  return read;
}

absl::StatusOr<StsRequest> MakeStsRequest(const AwsEnvironment& environment) {
  ASSIGN_OR_RETURN(const std::string token,
                   ReadBoundedFile(environment.token_file, kTokenFileBytesMax));
  return StsRequest{.url = environment.sts_endpoint.empty() ? StsEndpoint(environment.region)
                                                            : environment.sts_endpoint,
                    .body = StsRequestBody(
                        environment.role_arn,
                        environment.session_name.empty() ? "escapement" : environment.session_name,
                        absl::StripAsciiWhitespace(token))};
}

AwsIdentity::AwsIdentity(const AwsEnvironment& environment) {
  AwsCredentials given = {.access_key_id = environment.access_key_id,
                          .secret_access_key = environment.secret_access_key,
                          .session_token = environment.session_token};
  if (!given.access_key_id.empty() && !given.secret_access_key.empty()) {
    if (IsUsable(given)) {
      credentials_ = std::make_shared<const AwsCredentials>(std::move(given));
    } else {
      why_none_ =
          "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_SESSION_TOKEN has characters "
          "that no key has";
    }
  } else if (!environment.token_file.empty() && !environment.role_arn.empty()) {
    fetches_ = true;
  } else {
    why_none_ =
        "the environment has neither AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY nor "
        "AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN";
  }
}

absl::StatusOr<std::shared_ptr<const AwsCredentials>> AwsIdentity::Current(absl::Time now) const {
  if (credentials_ != nullptr && now < expires_) return credentials_;
  return absl::FailedPreconditionError(why_none_.empty() ? "they have expired" : why_none_);
}

absl::Duration AwsIdentity::OnFetched(absl::StatusOr<StsCredentials> fetched, absl::Time now) {
  if (!fetched.ok()) {
    why_none_ = std::string(fetched.status().message());
    return kFetchAgain;
  }
  credentials_ = std::make_shared<const AwsCredentials>(std::move(fetched->credentials));
  expires_ = fetched->expires;
  why_none_.clear();
  return std::clamp(expires_ - now - kRefreshBefore, kFetchAgain, kRefreshAtLatest);
}

}  // namespace escapement
