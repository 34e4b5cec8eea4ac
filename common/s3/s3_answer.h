// Reads and writes the XML of S3.
//
// Pure.

#ifndef COMMON_S3_S3_ANSWER_H_
#define COMMON_S3_S3_ANSWER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement {

struct S3Answer {
  long http_status = 0;
  std::string etag = {};  // as it stands in the header, with its quotes
  std::string body = {};
};

struct S3Object {
  std::string key;
  uint64_t bytes = 0;
};

// An upload in parts that was begun and is not complete.
struct S3Upload {
  std::string key;
  std::string id;
};

// One page of a list.
template <typename T>
struct S3Page {
  std::vector<T> found;
  // Parameters that ask for the next page, with their values; empty: this is the last one.
  std::vector<std::pair<std::string, std::string>> next;
};

// OK for 2xx without an error in the body. Otherwise the code and message of S3, as
//   NOT_FOUND            NoSuchKey, NoSuchBucket, NoSuchUpload, other 404s
//   PERMISSION_DENIED    401, 403
//   UNAVAILABLE          429, 5xx, and codes that ask to try again (SlowDown, RequestTimeout)
//   FAILED_PRECONDITION  everything else
absl::Status StatusOf(const S3Answer& answer);

// The code of the error, e.g. "NoSuchUpload"; "" if the answer has none.
std::string S3ErrorCode(const S3Answer& answer);

// UNAVAILABLE if the body is no such list.
absl::StatusOr<S3Page<S3Object>> ReadObjects(absl::string_view body);
absl::StatusOr<S3Page<S3Upload>> ReadUploads(absl::string_view body);
// The id of a new upload.
absl::StatusOr<std::string> ReadUploadId(absl::string_view body);

// The body that completes an upload.
std::string CompleteUploadBody(const std::vector<std::string>& etags);

}  // namespace escapement

#endif  // COMMON_S3_S3_ANSWER_H_
