// The exchange of a web identity (EKS) for credentials: AssumeRoleWithWebIdentity of AWS STS. Pure
// functions.

#ifndef SERVICES_HANDLER_DELIVERY_SQS_STS_H_
#define SERVICES_HANDLER_DELIVERY_SQS_STS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/handler/delivery/sqs/credentials.h"

namespace escapement::handler {

struct StsCredentials {
  SqsCredentials credentials;
  absl::Time expires;
};

// "https://sts.{region}.amazonaws.com/"; the global endpoint if the region is empty.
std::string StsEndpoint(absl::string_view region);

// The form of the request (application/x-www-form-urlencoded). It has the token, a secret.
std::string StsRequestBody(absl::string_view role_arn, absl::string_view session_name,
                           absl::string_view web_identity_token);

// Reads the XML of the answer. Errors: PERMISSION_DENIED with the code and message of STS, and
// UNAVAILABLE if it is no such answer.
absl::StatusOr<StsCredentials> ReadStsAnswer(long http_status, absl::string_view body);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SQS_STS_H_
