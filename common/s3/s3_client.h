// S3Client: the objects of one bucket of Amazon S3, or of a service with its API (MinIO, Ceph, …).
//
// Requests are signed with the process' own credentials (common/signing/aws_credentials.h), their
// bodies too. A request is tried up to kS3AttemptsMax times, if the connection breaks or S3 asks to
// try again. The times between are 0.5 s, 1 s, 2 s, …, 16 s. Errors have S3's code and message
// (s3_answer.h); UNAVAILABLE also means that S3 cannot be reached, and FAILED_PRECONDITION that
// there are no credentials.
//
// An object appears at once and whole, also if it is sent in parts: S3 makes it when the upload is
// completed.
//
// Threads: one at a time. All calls block.

#ifndef COMMON_S3_S3_CLIENT_H_
#define COMMON_S3_S3_CLIENT_H_

#include <curl/curl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/s3/s3_address.h"
#include "common/s3/s3_answer.h"
#include "common/signing/aws_credentials.h"
#include "common/signing/aws_signer.h"

namespace escapement {

inline constexpr int kS3AttemptsMax = 7;
inline constexpr size_t kS3PartsMax = 10'000;  // S3's bound

struct S3Options {
  S3Place place = {};
  AwsEnvironment environment = {};
  // An object of more bytes is sent in parts of this size, the last one smaller. An object has at
  // most kS3PartsMax parts: 312 GiB. One part is in memory. S3 takes 5 MiB to 5 GiB.
  size_t part_bytes = 32 << 20;
  // A request ends if nothing was sent and nothing came for so long.
  absl::Duration silence_max = absl::Seconds(60);
  std::function<void(absl::Duration)> wait = absl::SleepFor;  // between attempts
  // Asked between attempts, and about once a second while one is under way. If true, the call ends
  // with CANCELLED. May be empty.
  std::function<bool()> cancelled = nullptr;
};

// With the environment of this process. An empty `region` is that of AWS_REGION, an empty
// `endpoint` that of AWS_ENDPOINT_URL_S3. Errors as S3PlaceOf.
absl::StatusOr<S3Options> S3OptionsOf(absl::string_view bucket, absl::string_view region = "",
                                      absl::string_view endpoint = "");

class S3Client {
 public:
  using Parameters = std::vector<std::pair<std::string, std::string>>;

  explicit S3Client(S3Options options);
  ~S3Client();
  S3Client(const S3Client&) = delete;
  S3Client& operator=(const S3Client&) = delete;

  const S3Options& options() const { return options_; }

  // PutObject. Replaces an object of this key.
  absl::Status Put(const std::string& key, absl::string_view bytes);
  // GetObject: gives the bytes to `take`, in order. A broken connection is made again at the byte
  // where it broke. An error of `take` ends the call.
  absl::Status Get(const std::string& key, absl::FunctionRef<absl::Status(absl::string_view)> take);
  // GetObject: `bytes` bytes, at least one, from the byte `from` on. DATA_LOSS if the object ends
  // before.
  absl::StatusOr<std::string> GetRange(const std::string& key, uint64_t from, uint64_t bytes);
  // DeleteObject. OK if there is none.
  absl::Status Delete(const std::string& key);
  // ListObjectsV2: all whose keys begin so, in the order of their keys.
  absl::StatusOr<std::vector<S3Object>> List(const std::string& prefix);

  // Multipart uploads.
  absl::StatusOr<S3Upload> BeginUpload(const std::string& key);
  // Returns the part's ETag. Numbers begin with 1.
  absl::StatusOr<std::string> PutPart(const S3Upload& upload, size_t number,
                                      absl::string_view bytes);
  // `bytes`: of all parts.
  absl::Status CompleteUpload(const S3Upload& upload, const std::vector<std::string>& etags,
                              uint64_t bytes);
  // OK if there is none.
  absl::Status AbortUpload(const S3Upload& upload);
  // ListMultipartUploads: those whose keys begin so.
  absl::StatusOr<std::vector<S3Upload>> ListUploads(const std::string& prefix);

 private:
  struct Call;
  struct Attempt;
  absl::StatusOr<S3Answer> Send(const Call& call);
  absl::Status Fetch(Call call);
  Attempt SendOnce(const Call& call);
  Attempt Transfer(const Call& call, const std::vector<std::string>& lines, const std::string& url);
  absl::StatusOr<StsCredentials> FetchCredentials();
  absl::StatusOr<std::shared_ptr<const AwsCredentials>> Credentials();
  bool Cancelled() const;
  // Waits before the next attempt. False: there is none.
  bool WaitAfter(int attempts) const;
  template <typename T>
  absl::StatusOr<std::vector<T>> ListPages(const Parameters& query,
                                           absl::StatusOr<S3Page<T>> (*read)(absl::string_view));

  const S3Options options_;
  CURL* const easy_;
  AwsSigner signer_;
  AwsIdentity identity_;
  absl::Time fetch_at_;  // credentials; in the infinite future if they do not come from STS
};

// S3Writer: makes one object of bytes that come piece by piece, in one part or in several. At most
// one part is in memory.
class S3Writer {
 public:
  // `client` must outlive it.
  S3Writer(S3Client& client, std::string key);
  // Aborts the upload if it was begun and not finished.
  ~S3Writer();
  S3Writer(const S3Writer&) = delete;
  S3Writer& operator=(const S3Writer&) = delete;

  // OUT_OF_RANGE: the object would have too many parts. After an error the object cannot be made.
  absl::Status Add(absl::string_view bytes);
  // Makes the object.
  absl::Status Finish();

 private:
  absl::Status PutPart();

  S3Client& client_;
  const std::string key_;
  std::string part_;
  uint64_t bytes_ = 0;  // sum of the parts that were sent
  S3Upload upload_;     // no id: none was begun
  std::vector<std::string> etags_;
};

}  // namespace escapement

#endif  // COMMON_S3_S3_CLIENT_H_
