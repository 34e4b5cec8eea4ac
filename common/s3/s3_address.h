// Names of S3: addresses that users write, and where a bucket is served.
//
// Pure.

#ifndef COMMON_S3_S3_ADDRESS_H_
#define COMMON_S3_S3_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement {

// "s3://bucket/key". The key may be empty; it has no "/" at its begin and its end.
struct S3Address {
  std::string bucket;
  std::string key;
};

bool IsS3Address(absl::string_view text);

// INVALID_ARGUMENT with a phrase if the text is none.
absl::StatusOr<S3Address> ParseS3Address(absl::string_view text);

// Where a bucket is served.
struct S3Place {
  std::string origin;  // "https://host", "http://host:port"
  std::string path;    // before "/key": "" or "/bucket"
  std::string region;  // for signatures
};

// `endpoint` empty: AWS, at https://bucket.s3.region.amazonaws.com; a bucket with a dot, whose name
// no certificate has, is in the path. Otherwise it is an origin, "https://host:port" or http, with
// the bucket in the path; or its host has the text "{bucket}". A service other than AWS takes the
// region us-east-1, if `region` is empty. INVALID_ARGUMENT: a phrase that says what is missing.
absl::StatusOr<S3Place> S3PlaceOf(absl::string_view bucket, absl::string_view region,
                                  absl::string_view endpoint);

}  // namespace escapement

#endif  // COMMON_S3_S3_ADDRESS_H_
