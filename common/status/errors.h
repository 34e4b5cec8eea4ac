// Makes the errors that leave a service, and reads their details.
//
// Each error made here carries a google.rpc.ErrorInfo as a payload of the absl::Status: domain
// "escapement.dev", a reason in UPPER_SNAKE_CASE, and metadata. Errors about bad input also carry
// google.rpc.BadRequest, and those for "no room" a google.rpc.RetryInfo. common/rpc puts the
// payloads on the wire for all services, so a service never builds a grpc::Status.
//
// Texts may contain input of a client, so they are escaped and cut here. No control character
// reaches a terminal or a log, and the whole error fits into the 8 KiB of trailers that a client
// accepts.
//
// Threads: pure functions; FieldViolations is a plain value.

#ifndef COMMON_STATUS_ERRORS_H_
#define COMMON_STATUS_ERRORS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace escapement {

inline constexpr absl::string_view kErrorDomain = "escapement.dev";

// Key and value pairs of ErrorInfo.metadata.
using ErrorMetadata = std::vector<std::pair<std::string, std::string>>;

// Escapes the text as EscapeForTerminal does, and cuts it between two characters to at most 800
// bytes. A cut text ends with "...". Doing it twice changes nothing more.
std::string ErrorText(absl::string_view text);

// The general form. `reason` is UPPER_SNAKE_CASE and at most 63 characters; clients may switch on
// it.
absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                       const ErrorMetadata& metadata = {});

// INVALID_ARGUMENT, reason INVALID_FIELD. `field` is the path in the request message, e.g.
// "schedule.cron".
absl::Status InvalidField(absl::string_view field, absl::string_view description);

// NOT_FOUND, reason RESOURCE_NOT_FOUND, metadata resource = the full resource name.
absl::Status NotFound(absl::string_view resource);

// ALREADY_EXISTS, reason RESOURCE_EXISTS, metadata resource.
absl::Status AlreadyExists(absl::string_view resource);

// ABORTED, reason ETAG_MISMATCH, metadata resource: the caller's etag is not the current one. Read
// again.
absl::Status EtagMismatch(absl::string_view resource);

// ABORTED with the caller's reason: a lost race. The client may read and try again.
absl::Status Aborted(absl::string_view reason, absl::string_view message);

// FAILED_PRECONDITION: the state of the resource does not allow the call. Trying again without a
// change is useless.
absl::Status FailedPrecondition(absl::string_view reason, absl::string_view message,
                                const ErrorMetadata& metadata = {});

// RESOURCE_EXHAUSTED with a RetryInfo: no room now; nothing was done.
absl::Status ResourceExhausted(absl::string_view reason, absl::string_view message,
                               absl::Duration retry_delay);

// RESOURCE_EXHAUSTED, reason QUOTA_EXCEEDED, metadata subject and quota, with a RetryInfo and a
// google.rpc.QuotaFailure. `subject` is a tenant's name, `quota` the field of its quotas.
absl::Status QuotaExceeded(absl::string_view subject, absl::string_view quota,
                           absl::string_view description, absl::Duration retry_delay);

// Collects all violations of a request, so that the caller gets them at once.
class FieldViolations {
 public:
  void Add(absl::string_view field, absl::string_view description);
  // Adds the violations of `status`, with their fields below `prefix` ("schedule" + "cron" =
  // "schedule.cron"). A status without violations counts as one violation of the field `prefix`. An
  // OK status adds nothing.
  void AddStatus(absl::string_view prefix, const absl::Status& status);
  bool empty() const { return violations_.empty(); }
  size_t size() const { return violations_.size(); }
  // OK if empty. Otherwise INVALID_ARGUMENT with the first violations, up to 100 of them and 2 KiB.
  // The message has as many of them as fit, and then "and N more".
  absl::Status ToStatus() const;

 private:
  std::vector<std::pair<std::string, std::string>> violations_;
};

// Readers, for tests, clients and log lines.

// The ErrorInfo's reason, or "" if there is none.
std::string ErrorReason(const absl::Status& status);
// The ErrorInfo's metadata value of `key`, or "".
std::string ErrorMetadataValue(const absl::Status& status, absl::string_view key);
// (field, description) in order.
std::vector<std::pair<std::string, std::string>> FieldViolationsOf(const absl::Status& status);
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

// The same error with `context: ` before its message, payloads kept.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

}  // namespace escapement

#endif  // COMMON_STATUS_ERRORS_H_
