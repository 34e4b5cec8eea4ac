// OwnCredentials are the platform's own keys of AWS: from the environment, a container or STS.
//
// SqsCredentials: keys of AWS. Pure functions.
//
// They are secrets: no text of errors and logs may have them.

#ifndef SERVICES_HANDLER_DELIVERY_SQS_OWN_CREDENTIALS_H_
#define SERVICES_HANDLER_DELIVERY_SQS_OWN_CREDENTIALS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/delivery/http/transfer_loop.h"

namespace escapement::handler {

struct SqsCredentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // empty: none
};

// Reads "id:secret" or "id:secret:token" (SqsTarget.credentials). INVALID_ARGUMENT, without the
// text, if it has another form or characters that cannot stand in a header.
absl::StatusOr<SqsCredentials> ParseSqsCredentials(absl::string_view text);

// The exchange of a web identity (EKS) for credentials: AssumeRoleWithWebIdentity of AWS STS. Pure
// functions.

struct StsCredentials {
  SqsCredentials credentials;
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

// OwnCredentials: the handler's own credentials for SQS, as AWS gives them to processes: keys in
// the environment, or a web identity (EKS) that STS exchanges for keys.
//
// Keys from STS are fetched again kRefreshBefore before they expire, while the present ones are in
// use. After a failed fetch the next one follows kFetchAgain later.
//
// Threads: any.

// The environment variables of AWS that are used; empty if they are not set.
struct AwsEnvironment {
  std::string access_key_id;      // AWS_ACCESS_KEY_ID
  std::string secret_access_key;  // AWS_SECRET_ACCESS_KEY
  std::string session_token;      // AWS_SESSION_TOKEN
  std::string token_file;         // AWS_WEB_IDENTITY_TOKEN_FILE
  std::string role_arn;           // AWS_ROLE_ARN
  std::string session_name;       // AWS_ROLE_SESSION_NAME
  std::string region;             // AWS_REGION, or AWS_DEFAULT_REGION
  std::string sts_endpoint;       // AWS_ENDPOINT_URL_STS

  static AwsEnvironment OfProcess();
};

class OwnCredentials {
 public:
  static constexpr absl::Duration kRefreshBefore = absl::Minutes(5);
  static constexpr absl::Duration kFetchAgain = absl::Seconds(10);
  static constexpr absl::Duration kFetchTimeout = absl::Seconds(10);

  // `on_fetched` is called after each fetch, also a failed one: on the thread of the loop, or
  // within FetchIfDue if the token's file cannot be read.
  OwnCredentials(AwsEnvironment environment, std::function<void()> on_fetched);

  // True once Current has an answer: credentials, or why there are none.
  bool known() const;
  // FAILED_PRECONDITION with the reason if there are no valid ones. The reason has no secret.
  absl::StatusOr<std::shared_ptr<const SqsCredentials>> Current() const;

  // When FetchIfDue must be called.
  MonotonicMicros fetch_at() const;
  // Starts a fetch in the loop if it is time. Reads the token's file. The loop must end before this
  // object does.
  void FetchIfDue(TransferLoop& loop, MonotonicMicros now);

 private:
  class Fetch;
  void OnFetched(absl::StatusOr<StsCredentials> fetched);

  const AwsEnvironment environment_;
  const std::function<void()> on_fetched_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const SqsCredentials> credentials_ ABSL_GUARDED_BY(mutex_);
  absl::Time expires_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  std::string why_none_ ABSL_GUARDED_BY(mutex_);
  MonotonicMicros fetch_at_ ABSL_GUARDED_BY(mutex_) = kNeverMicros;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SQS_OWN_CREDENTIALS_H_
