#include "services/handler/delivery/sqs/sts.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/printable_text.h"

namespace escapement::handler {
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

}  // namespace escapement::handler
