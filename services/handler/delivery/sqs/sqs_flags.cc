#include "services/handler/delivery/sqs/sqs_flags.h"

#include <utility>

#include "absl/flags/flag.h"
#include "services/handler/delivery/sqs/sqs_transport.h"

ABSL_FLAG(bool, sqs_use_own_credentials, false,
          "SQS targets without credentials use those of this process: AWS_ACCESS_KEY_ID, "
          "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or AWS_WEB_IDENTITY_TOKEN_FILE with "
          "AWS_ROLE_ARN. Every tenant can then send to the queues that this process may send to");
ABSL_FLAG(int, sqs_batch_bytes_max, 262'144,
          "bytes of the messages in one SQS request together, and so of the largest message; raise "
          "it only if all queues are in services that take more");
ABSL_FLAG(int, sqs_requests_per_queue, 8, "concurrent requests to one SQS queue");

namespace escapement::handler {

void ValidateSqsFlags(std::vector<std::string>& errors) {
  if (absl::GetFlag(FLAGS_sqs_batch_bytes_max) < 1024 ||
      absl::GetFlag(FLAGS_sqs_batch_bytes_max) > 1'048'576) {
    errors.push_back("--sqs_batch_bytes_max: must be from 1024 to 1048576");
  }
  if (absl::GetFlag(FLAGS_sqs_requests_per_queue) < 1 ||
      absl::GetFlag(FLAGS_sqs_requests_per_queue) > 64) {
    errors.push_back("--sqs_requests_per_queue: must be from 1 to 64");
  }
}

std::unique_ptr<DeliveryTransport> NewSqsTransportFromFlags(
    std::shared_ptr<const AddressRule> addresses) {
  SqsTransport::Options options;
  options.addresses = std::move(addresses);
  if (absl::GetFlag(FLAGS_sqs_use_own_credentials))
    options.own_credentials = AwsEnvironment::OfProcess();
  options.batch_bytes_max = static_cast<size_t>(absl::GetFlag(FLAGS_sqs_batch_bytes_max));
  options.requests_per_queue_max = absl::GetFlag(FLAGS_sqs_requests_per_queue);
  return std::make_unique<SqsTransport>(options);
}

}  // namespace escapement::handler
