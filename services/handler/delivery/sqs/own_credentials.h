// OwnCredentials: the handler's own credentials for SQS, as AWS gives them to processes. Keys of a
// web identity (EKS) are fetched from STS in the transport's loop, when AwsIdentity says so.
//
// They are secrets: no text of errors and logs may have them.
//
// Threads: any. ParseSqsCredentials is pure.

#ifndef SERVICES_HANDLER_DELIVERY_SQS_OWN_CREDENTIALS_H_
#define SERVICES_HANDLER_DELIVERY_SQS_OWN_CREDENTIALS_H_

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/signing/aws_credentials.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/delivery/http/transfer_loop.h"

namespace escapement::handler {

// Reads "id:secret" or "id:secret:token" (SqsTarget.credentials). INVALID_ARGUMENT, without the
// text, if it has another form or characters that cannot stand in a header.
absl::StatusOr<AwsCredentials> ParseSqsCredentials(absl::string_view text);

class OwnCredentials {
 public:
  // `on_fetched` is called after each fetch, also a failed one: on the thread of the loop, or
  // within FetchIfDue if the token's file cannot be read.
  OwnCredentials(AwsEnvironment environment, std::function<void()> on_fetched);

  // True once Current has an answer: credentials, or why there are none.
  bool known() const;
  // FAILED_PRECONDITION with the reason if there are no valid ones. The reason has no secret.
  absl::StatusOr<std::shared_ptr<const AwsCredentials>> Current() const;

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
  AwsIdentity identity_ ABSL_GUARDED_BY(mutex_);
  MonotonicMicros fetch_at_ ABSL_GUARDED_BY(mutex_) = kNeverMicros;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SQS_OWN_CREDENTIALS_H_
