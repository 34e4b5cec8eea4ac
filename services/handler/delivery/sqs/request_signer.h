// SqsRequestSigner: the headers of SendMessageBatch requests, with a signature of AWS (Signature
// Version 4).
//
// The formula:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
//
// The signature covers all returned headers except Authorization, which holds it. The key of a
// signature depends only on the day, the region and the secret. So it is kept. docs/adr/0023 tells
// why libcurl does not sign.
//
// Threads: one at a time.

#ifndef SERVICES_HANDLER_DELIVERY_SQS_REQUEST_SIGNER_H_
#define SERVICES_HANDLER_DELIVERY_SQS_REQUEST_SIGNER_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/handler/delivery/sqs/own_credentials.h"

namespace escapement::handler {

// "host:port" of the endpoint "scheme://host:port", without the port if it is the scheme's default.
std::string SqsHostOf(absl::string_view endpoint);

class SqsRequestSigner {
 public:
  // The header lines of a POST to the path "/", without the line ends: Content-Type, Host,
  // X-Amz-Date, X-Amz-Security-Token if there is a token, X-Amz-Target, Authorization. `host`:
  // SqsHostOf the endpoint.
  std::vector<std::string> HeaderLines(absl::string_view host, absl::string_view region,
                                       const SqsCredentials& credentials, absl::string_view body,
                                       absl::Time now);

 private:
  const std::string& KeyOf(absl::string_view day, absl::string_view region,
                           absl::string_view secret_access_key);

  std::string day_;                                     // the day that `keys_` are for
  absl::flat_hash_map<std::string, std::string> keys_;  // by region and secret
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SQS_REQUEST_SIGNER_H_
