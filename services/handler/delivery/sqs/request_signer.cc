#include "services/handler/delivery/sqs/request_signer.h"

#include <cstddef>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/hash.h"

namespace escapement::handler {
namespace {

constexpr absl::string_view kAlgorithm = "AWS4-HMAC-SHA256";
constexpr absl::string_view kService = "sqs";
constexpr absl::string_view kTerminator = "aws4_request";
constexpr size_t kKeysMax = 1000;

// A header that is signed: its name in the line and in the signature.
struct Header {
  absl::string_view name;
  absl::string_view signed_name;
  absl::string_view value;
};

std::string HexSha256(absl::string_view bytes) {
  Sha256 hash;
  hash.Add(bytes);
  return absl::BytesToHexString(hash.Finish());
}

}  // namespace

std::string SqsHostOf(absl::string_view endpoint) {
  if (absl::ConsumePrefix(&endpoint, "https://")) {
    absl::ConsumeSuffix(&endpoint, ":443");
  } else if (absl::ConsumePrefix(&endpoint, "http://")) {
    absl::ConsumeSuffix(&endpoint, ":80");
  }
  return std::string(endpoint);
}

std::vector<std::string> SqsRequestSigner::HeaderLines(absl::string_view host,
                                                       absl::string_view region,
                                                       const SqsCredentials& credentials,
                                                       absl::string_view body, absl::Time now) {
  const std::string time = absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone());
  const absl::string_view day = absl::string_view(time).substr(0, time.find('T'));
  // In the order of the signed names.
  const Header headers[] = {
      {"Content-Type", "content-type", "application/x-amz-json-1.0"},
      {"Host", "host", host},
      {"X-Amz-Date", "x-amz-date", time},
      {"X-Amz-Security-Token", "x-amz-security-token", credentials.session_token},
      {"X-Amz-Target", "x-amz-target", "AmazonSQS.SendMessageBatch"},
  };
  std::vector<std::string> lines;
  std::string request = "POST\n/\n\n";  // the canonical one
  std::string names;
  for (const Header& header : headers) {
    if (header.value.empty()) continue;
    lines.push_back(absl::StrCat(header.name, ": ", header.value));
    absl::StrAppend(&request, header.signed_name, ":", header.value, "\n");
    absl::StrAppend(&names, names.empty() ? "" : ";", header.signed_name);
  }
  absl::StrAppend(&request, "\n", names, "\n", HexSha256(body));
  const std::string scope = absl::StrCat(day, "/", region, "/", kService, "/", kTerminator);
  const std::string text =
      absl::StrCat(kAlgorithm, "\n", time, "\n", scope, "\n", HexSha256(request));
  const std::string signature = HmacSha256(KeyOf(day, region, credentials.secret_access_key), text);
  lines.push_back(absl::StrCat(
      "Authorization: ", kAlgorithm, " Credential=", credentials.access_key_id, "/", scope,
      ", SignedHeaders=", names, ", Signature=", absl::BytesToHexString(signature)));
  return lines;
}

const std::string& SqsRequestSigner::KeyOf(absl::string_view day, absl::string_view region,
                                           absl::string_view secret_access_key) {
  if (day != day_ || keys_.size() >= kKeysMax) {
    keys_.clear();
    day_ = std::string(day);
  }
  std::string& key = keys_[absl::StrCat(region, "/", secret_access_key)];
  if (key.empty()) {
    key = absl::StrCat("AWS4", secret_access_key);
    for (const absl::string_view part : {day, region, kService, kTerminator})
      key = HmacSha256(key, part);
  }
  return key;
}

}  // namespace escapement::handler
