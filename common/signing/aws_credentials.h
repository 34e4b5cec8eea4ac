// The keys with which a process calls services of AWS: from its environment, or from STS for a web
// identity (EKS).
//
// They are secrets: no text of errors and logs may have them.
//
// Threads: pure functions and values, except for AwsIdentity: one at a time.

#ifndef COMMON_SIGNING_AWS_CREDENTIALS_H_
#define COMMON_SIGNING_AWS_CREDENTIALS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace escapement {

struct AwsCredentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // empty: none
};

// True if the key and its secret are not empty, and nothing has a character that cannot stand in a
// header, such as a blank.
bool IsUsable(const AwsCredentials& credentials);

// The environment variables of AWS that are used; empty if they are not set.
struct AwsEnvironment {
  std::string access_key_id;      // AWS_ACCESS_KEY_ID
  std::string secret_access_key;  // AWS_SECRET_ACCESS_KEY
  std::string session_token;      // AWS_SESSION_TOKEN
  std::string token_file;         // AWS_WEB_IDENTITY_TOKEN_FILE
  std::string role_arn;           // AWS_ROLE_ARN
  std::string session_name;       // AWS_ROLE_SESSION_NAME
  std::string region;             // AWS_REGION, or AWS_DEFAULT_REGION
  std::string s3_endpoint;        // AWS_ENDPOINT_URL_S3
  std::string sts_endpoint;       // AWS_ENDPOINT_URL_STS

  static AwsEnvironment OfProcess();
};

// The exchange of a web identity for credentials: AssumeRoleWithWebIdentity of AWS STS.

struct StsCredentials {
  AwsCredentials credentials;
  absl::Time expires;
};

// "https://sts.{region}.amazonaws.com/"; the global endpoint if the region is empty.
std::string StsEndpoint(absl::string_view region);

// The form of the request (application/x-www-form-urlencoded). It has the token, a secret.
std::string StsRequestBody(absl::string_view role_arn, absl::string_view session_name,
                           absl::string_view web_identity_token);

// Reads the XML of the answer. Errors: PERMISSION_DENIED with the code and message of STS if
// it has refused; UNAVAILABLE if the answer has neither credentials nor an error code.
absl::StatusOr<StsCredentials> ReadStsAnswer(long http_status, absl::string_view body);

// A POST.
struct StsRequest {
  std::string url;
  std::string body;
};

// Reads the token's file: EKS replaces it before its token expires. Errors are those of the file.
absl::StatusOr<StsRequest> MakeStsRequest(const AwsEnvironment& environment);

// AwsIdentity: the credentials of this process. The owner asks STS, if it is to be asked.
//
// Keys from STS are fetched again kRefreshBefore before they expire, while the present ones are in
// use. After a failed fetch the next one follows kFetchAgain later.
class AwsIdentity {
 public:
  static constexpr absl::Duration kRefreshBefore = absl::Minutes(5);
  static constexpr absl::Duration kFetchAgain = absl::Seconds(10);
  static constexpr absl::Duration kFetchTimeout = absl::Seconds(10);

  explicit AwsIdentity(const AwsEnvironment& environment);

  // True if the credentials come from STS: MakeStsRequest is due at once.
  bool fetches() const { return fetches_; }
  // True once Current has an answer: credentials, or why there are none.
  bool known() const { return credentials_ != nullptr || !why_none_.empty(); }
  // FAILED_PRECONDITION with the reason if there are no valid ones. The reason has no secret.
  absl::StatusOr<std::shared_ptr<const AwsCredentials>> Current(absl::Time now) const;

  // Takes what ReadStsAnswer has read, or the error of the fetch. Returns the time until the next
  // fetch is due.
  absl::Duration OnFetched(absl::StatusOr<StsCredentials> fetched, absl::Time now);

 private:
  bool fetches_ = false;
  std::shared_ptr<const AwsCredentials> credentials_;
  absl::Time expires_ = absl::InfiniteFuture();
  std::string why_none_;
};

}  // namespace escapement

#endif  // COMMON_SIGNING_AWS_CREDENTIALS_H_
