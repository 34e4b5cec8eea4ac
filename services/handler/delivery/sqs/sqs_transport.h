// SqsTransport: delivers events to queues of Amazon SQS, and of services with its JSON protocol
// (AWS JSON 1.0), by SendMessageBatch requests.
//
// Attempts that wait together for one queue are joined into requests of up to 10 messages, also
// attempts of several definitions (send_queues.h). A request takes its messages when it starts, so
// the fuller the connections are, the fuller the requests. message.h says what a message is,
// answer.h what the answers mean. If SQS refuses a whole request because of a message in it, its
// messages are sent again, each alone.
//
// Messages of a FIFO queue have the target's message group (default: the event's source), and the
// event's id for deduplication. Messages of one group are sent in their order. A retry comes later
// than messages that were sent before it.
//
//   answer                                                  see answer.h
//   a message alone exceeds batch_bytes_max                 kRejected
//   a message has a fact that SQS does not take             kRejected
//   no credentials, or they cannot be read                  kFailed
//   the address of the endpoint is not allowed, no such
//   host, no connection, bad certificate: nothing was sent  kFailed, not_sent
//   timeout, reset                                          kUnknown
//   half of the timeout passed before a request was free    kUnsent
//
// A request ends as unknown at the first timeout of its messages. It has messages of one timeout.
//
// If SQS has just closed a kept connection, the request is sent again on a new one. SQS may then
// get its messages twice, as after every broken connection.
//
// Threads: Send may be called from any thread. Results come on the transport's two threads, and on
// the destructor's. The destructor ends attempts that are being sent as kUnknown, and others as
// kUnsent.

#ifndef SERVICES_HANDLER_DELIVERY_SQS_SQS_TRANSPORT_H_
#define SERVICES_HANDLER_DELIVERY_SQS_SQS_TRANSPORT_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/net/address_rule.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/delivery/sqs/own_credentials.h"

namespace escapement::handler {

class SqsTransport final : public DeliveryTransport {
 public:
  struct Options {
    // Which addresses may be connected to. Never null.
    std::shared_ptr<const AddressRule> addresses = nullptr;
    // Set: targets without credentials use those of this environment. Unset: they fail.
    std::optional<AwsEnvironment> own_credentials = std::nullopt;
    // Limit for the messages of a request together (bodies and attributes). SQS takes 262,144 bytes
    // in every region, and newer ones up to 1,048,576.
    size_t batch_bytes_max = 262'144;
    int requests_per_queue_max = 8;
    // Requests to all queues. Each takes some 40 KiB and its messages. A queue that does not
    // answer has one request at a time, so this many such queues can stop the others.
    int requests_max = 256;
    size_t answer_bytes_max = 64 << 10;
    absl::Duration connect_timeout = absl::Seconds(10);
  };

  explicit SqsTransport(const Options& options);
  ~SqsTransport() override;
  SqsTransport(const SqsTransport&) = delete;
  SqsTransport& operator=(const SqsTransport&) = delete;

  // The target of the definitions must be an SQS target, with its credentials in clear.
  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) override;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

// The flags of the SQS transport, and the transport that they describe.
//
// Threads: call after the flags are parsed, on one thread.

// Appends one sentence for each flag with an invalid value.
void ValidateSqsFlags(std::vector<std::string>& errors);

// `addresses` is never null.
std::unique_ptr<DeliveryTransport> NewSqsTransportFromFlags(
    std::shared_ptr<const AddressRule> addresses);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SQS_SQS_TRANSPORT_H_
