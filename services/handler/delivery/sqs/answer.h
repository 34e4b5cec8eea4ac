// The results of attempts, from the answer to their SendMessageBatch request. Pure functions.
//
//   200, entry in Successful                              kAccepted
//   200, entry in Failed                                  kRejected if SQS blames the sender,
//   unless
//                                                         the code is a passing or mendable one
//                                                         (throttling, permission, keys): kFailed
//   200, entry in neither or in both                      kUnknown
//   200, the body is no answer to such a request          kUnknown
//   other status, SQS blames the contents (BlamesContents), one entry      kRejected
//   any other status                                      kFailed
//
// retry_after is what Retry-After says with the statuses 429 and 503, and with throttling.

#ifndef SERVICES_HANDLER_DELIVERY_SQS_ANSWER_H_
#define SERVICES_HANDLER_DELIVERY_SQS_ANSWER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

struct SqsAnswer {
  long status = 0;  // the HTTP status
  std::string body;
  bool cut = false;  // the body is only the beginning
  absl::Duration retry_after = absl::ZeroDuration();
};

// One result for each entry. The ids of the entries are "0", "1", ...
std::vector<DeliveryResult> ResultsOfAnswer(const SqsAnswer& answer, size_t entries);

// True if the whole request was refused because of a message in it. Sent one by one, the other
// messages may be accepted.
bool BlamesContents(const SqsAnswer& answer);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SQS_ANSWER_H_
