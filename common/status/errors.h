// Named constructors for the errors that leave a service, and readers of what they carry.
//
// Every error made here carries a google.rpc.ErrorInfo (domain "escapement.dev", a reason in
// UPPER_SNAKE_CASE and metadata) as a payload of the absl::Status; bad input carries
// google.rpc.BadRequest beside it, "no room" a google.rpc.RetryInfo. common/rpc puts the payloads
// on the wire once for all services, so a service never builds a grpc::Status.
//
// Texts may hold what a client sent, so they are escaped and cut here: no control character reaches
// a terminal or a log, and the whole error fits in the 8 KiB of trailers that a client accepts.
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

// The text as errors carry it: escaped as by EscapeForTerminal, and cut to at most 800 bytes
// between two characters. A cut text ends with "...". Doing it twice is the same as doing it once.
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

// ABORTED with a reason of the caller's: a lost race that may be tried again from the read.
absl::Status Aborted(absl::string_view reason, absl::string_view message);

// FAILED_PRECONDITION: the resource's state does not allow it; trying again without a change is
// useless.
absl::Status FailedPrecondition(absl::string_view reason, absl::string_view message,
                                const ErrorMetadata& metadata = {});

// RESOURCE_EXHAUSTED with a RetryInfo: no room now; nothing was done.
absl::Status ResourceExhausted(absl::string_view reason, absl::string_view message,
                               absl::Duration retry_delay);

// Gathers every violation of a request, so that the caller hears of all at once.
class FieldViolations {
 public:
  void Add(absl::string_view field, absl::string_view description);
  // Adds the violations of `status` with their fields below `prefix` ("schedule" + "cron" =
  // "schedule.cron"); a status without violations counts as one of the field `prefix`. An OK status
  // adds nothing.
  void AddStatus(absl::string_view prefix, const absl::Status& status);
  bool empty() const { return violations_.empty(); }
  size_t size() const { return violations_.size(); }
  // OK if empty; otherwise INVALID_ARGUMENT with the first violations, up to 100 of them and 2 KiB.
  // The message has as many of them as fit, and ends with "and N more" if some do not.
  absl::Status ToStatus() const;

 private:
  std::vector<std::pair<std::string, std::string>> violations_;
};

// Readers; for tests, clients and log lines.

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
