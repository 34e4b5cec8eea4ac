// SqsRequestSigner: the headers of SendMessageBatch requests, with a signature of AWS
// (common/signing/aws_signer.h). The signature covers all of them except Authorization, which holds
// it.
//
// Threads: one at a time.

#ifndef SERVICES_HANDLER_DELIVERY_SQS_REQUEST_SIGNER_H_
#define SERVICES_HANDLER_DELIVERY_SQS_REQUEST_SIGNER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/signing/aws_credentials.h"
#include "common/signing/aws_signer.h"

namespace escapement::handler {

class SqsRequestSigner {
 public:
  // The header lines of a POST to the path "/", without the line ends: Content-Type, Host,
  // X-Amz-Date, X-Amz-Security-Token if there is a token, X-Amz-Target, Authorization. `host`:
  // AwsHostOf the endpoint.
  std::vector<std::string> HeaderLines(absl::string_view host, absl::string_view region,
                                       const AwsCredentials& credentials, absl::string_view body,
                                       absl::Time now);

 private:
  AwsSigner signer_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SQS_REQUEST_SIGNER_H_
