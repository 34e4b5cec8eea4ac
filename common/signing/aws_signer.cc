#include "common/signing/aws_signer.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/hash.h"

namespace escapement {
namespace {

constexpr absl::string_view kAlgorithm = "AWS4-HMAC-SHA256";
constexpr absl::string_view kTerminator = "aws4_request";
constexpr size_t kKeysMax = 1000;

}  // namespace

std::string AwsHostOf(absl::string_view endpoint) {
  if (absl::ConsumePrefix(&endpoint, "https://")) {
    absl::ConsumeSuffix(&endpoint, ":443");
  } else if (absl::ConsumePrefix(&endpoint, "http://")) {
    absl::ConsumeSuffix(&endpoint, ":80");
  }
  return std::string(endpoint);
}

absl::string_view AwsDomainOf(absl::string_view region) {
  return absl::StartsWith(region, "cn-") ? "amazonaws.com.cn" : "amazonaws.com";
}

std::string AwsEncode(absl::string_view text, absl::string_view kept) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || absl::StrContains("-._~", c) || absl::StrContains(kept, c)) {
      encoded.push_back(c);
    } else {
      encoded.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return encoded;
}

std::string AwsPayloadHash(absl::string_view body) {
  Sha256 hash;
  hash.Add(body);
  return absl::BytesToHexString(hash.Finish());
}

std::vector<std::string> AwsSigner::HeaderLines(const Request& request,
                                                const AwsCredentials& credentials, absl::Time now) {
  const std::string time = absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone());
  const absl::string_view day = absl::string_view(time).substr(0, time.find('T'));
  std::vector<Header> headers = request.headers;
  headers.emplace_back("X-Amz-Date", time);
  headers.emplace_back("X-Amz-Security-Token", credentials.session_token);
  std::vector<std::pair<std::string, const Header*>> sorted;
  for (const Header& header : headers) {
    if (!header.second.empty()) sorted.emplace_back(absl::AsciiStrToLower(header.first), &header);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> lines;
  std::string canonical =
      absl::StrCat(request.method, "\n", request.path, "\n", request.query, "\n");
  std::string names;
  for (const auto& [name, header] : sorted) {
    lines.push_back(absl::StrCat(header->first, ": ", header->second));
    absl::StrAppend(&canonical, name, ":", header->second, "\n");
    absl::StrAppend(&names, names.empty() ? "" : ";", name);
  }
  absl::StrAppend(&canonical, "\n", names, "\n", request.payload_hash);
  const std::string scope =
      absl::StrCat(day, "/", request.region, "/", request.service, "/", kTerminator);
  const std::string text =
      absl::StrCat(kAlgorithm, "\n", time, "\n", scope, "\n", AwsPayloadHash(canonical));
  const std::string signature =
      HmacSha256(KeyOf(day, request, credentials.secret_access_key), text);
  lines.push_back(absl::StrCat(
      "Authorization: ", kAlgorithm, " Credential=", credentials.access_key_id, "/", scope,
      ", SignedHeaders=", names, ", Signature=", absl::BytesToHexString(signature)));
  return lines;
}

const std::string& AwsSigner::KeyOf(absl::string_view day, const Request& request,
                                    absl::string_view secret_access_key) {
  if (day != day_ || keys_.size() >= kKeysMax) {
    keys_.clear();
    day_ = std::string(day);
  }
  std::string& key =
      keys_[absl::StrCat(request.region, "/", request.service, "/", secret_access_key)];
  if (key.empty()) {
    key = absl::StrCat("AWS4", secret_access_key);
    for (const absl::string_view part : {day, request.region, request.service, kTerminator})
      key = HmacSha256(key, part);
  }
  return key;
}

}  // namespace escapement
