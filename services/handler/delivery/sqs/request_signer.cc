#include "services/handler/delivery/sqs/request_signer.h"

namespace escapement::handler {

std::vector<std::string> SqsRequestSigner::HeaderLines(absl::string_view host,
                                                       absl::string_view region,
                                                       const AwsCredentials& credentials,
                                                       absl::string_view body, absl::Time now) {
  return signer_.HeaderLines({.method = "POST",
                              .headers = {{"Content-Type", "application/x-amz-json-1.0"},
                                          {"Host", host},
                                          {"X-Amz-Target", "AmazonSQS.SendMessageBatch"}},
                              .payload_hash = AwsPayloadHash(body),
                              .region = region,
                              .service = "sqs"},
                             credentials, now);
}

}  // namespace escapement::handler
