#include "common/s3/s3_address.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/signing/aws_signer.h"

namespace escapement {
namespace {

constexpr absl::string_view kScheme = "s3://";
constexpr absl::string_view kBucketMark = "{bucket}";
constexpr size_t kKeyBytesMax = 900;  // S3 takes 1024; a name follows

bool HasOnly(absl::string_view text, absl::string_view others) {
  return std::all_of(text.begin(), text.end(), [others](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains(others, c);
  });
}

bool IsOrigin(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "https://") && !absl::ConsumePrefix(&text, "http://"))
    return false;
  return !text.empty() && HasOnly(text, "-._:[]");
}

}  // namespace

bool IsS3Address(absl::string_view text) { return absl::StartsWith(text, kScheme); }

absl::StatusOr<S3Address> ParseS3Address(absl::string_view text) {
  const std::string whole(text);
  const auto refused = [&whole](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(whole, ": ", why));
  };
  if (!absl::ConsumePrefix(&text, kScheme)) return refused("not s3://BUCKET/PREFIX");
  const size_t slash = std::min(text.find('/'), text.size());
  S3Address address = {.bucket = std::string(text.substr(0, slash)),
                       .key = std::string(text.substr(slash))};
  if (address.bucket.size() < 3 || address.bucket.size() > 63 || !HasOnly(address.bucket, "-._"))
    return refused("a bucket's name has 3 to 63 letters, digits, dots and dashes");
  address.key.erase(0, address.key.find_first_not_of('/'));
  address.key.erase(address.key.find_last_not_of('/') + 1);
  const bool printable = std::none_of(address.key.begin(), address.key.end(), [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c));
  });
  if (!printable || address.key.size() > kKeyBytesMax)
    return refused("the prefix has control characters, or more than 900 bytes");
  return address;
}

absl::StatusOr<S3Place> S3PlaceOf(absl::string_view bucket, absl::string_view region,
                                  absl::string_view endpoint) {
  if (!HasOnly(region, "-"))
    return absl::InvalidArgumentError(absl::StrCat(region, " is not a region"));
  if (endpoint.empty()) {
    if (region.empty()) return absl::InvalidArgumentError("no region: give it, or set AWS_REGION");
    const std::string host = absl::StrCat("s3.", region, ".", AwsDomainOf(region));
    if (absl::StrContains(bucket, '.')) {
      return S3Place{.origin = absl::StrCat("https://", host),
                     .path = absl::StrCat("/", bucket),
                     .region = std::string(region)};
    }
    return S3Place{.origin = absl::StrCat("https://", bucket, ".", host),
                   .path = "",
                   .region = std::string(region)};
  }
  absl::ConsumeSuffix(&endpoint, "/");
  const bool in_host = absl::StrContains(endpoint, kBucketMark);
  S3Place place = {.origin = absl::StrReplaceAll(endpoint, {{kBucketMark, bucket}}),
                   .path = in_host ? "" : absl::StrCat("/", bucket),
                   .region = std::string(region.empty() ? "us-east-1" : region)};
  if (!IsOrigin(place.origin)) {
    return absl::InvalidArgumentError(absl::StrCat(
        endpoint, " is not an endpoint: https://HOST:PORT or http://HOST:PORT, without a path"));
  }
  return place;
}

}  // namespace escapement
