// SqsCredentials: keys of AWS. Pure functions.
//
// They are secrets: no text of errors and logs may have them.

#ifndef SERVICES_HANDLER_DELIVERY_SQS_CREDENTIALS_H_
#define SERVICES_HANDLER_DELIVERY_SQS_CREDENTIALS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement::handler {

struct SqsCredentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // empty: none
};

// Reads "id:secret" or "id:secret:token" (SqsTarget.credentials). INVALID_ARGUMENT, without the
// text, if it has another form or characters that cannot stand in a header.
absl::StatusOr<SqsCredentials> ParseSqsCredentials(absl::string_view text);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SQS_CREDENTIALS_H_
