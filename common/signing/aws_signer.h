// AwsSigner: signs HTTP requests to services of AWS (Signature Version 4).
//
// The formula:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
//
// The key of a signature depends only on the day, the region, the service and the secret. So it is
// kept. docs/adr/0023 tells why libcurl does not sign.
//
// Threads: an AwsSigner is for one at a time; the functions are pure.

#ifndef COMMON_SIGNING_AWS_SIGNER_H_
#define COMMON_SIGNING_AWS_SIGNER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/signing/aws_credentials.h"

namespace escapement {

// "host:port" of the endpoint "scheme://host:port", without the port if it is the scheme's default.
std::string AwsHostOf(absl::string_view endpoint);

// The domain that a region's services are in: "amazonaws.com", or that of China.
absl::string_view AwsDomainOf(absl::string_view region);

// All bytes but letters, digits and "-._~" become %XY; those in `kept` stay as well.
std::string AwsEncode(absl::string_view text, absl::string_view kept = "");

// The SHA-256 of a body, in hex.
std::string AwsPayloadHash(absl::string_view body);

class AwsSigner {
 public:
  // A name as it stands in the line, and its value, without blanks at its ends and without two
  // blanks in a row. No line if the value is empty.
  using Header = std::pair<absl::string_view, absl::string_view>;

  struct Request {
    absl::string_view method;      // "GET"
    absl::string_view path = "/";  // as it is sent, with AwsEncode(path, "/")
    absl::string_view query = {};  // as it is sent: "a=1&b=", encoded and sorted by name
    // All that are signed, in any order: Host, and those that the service wants. X-Amz-Date and
    // X-Amz-Security-Token are added.
    std::vector<Header> headers = {};
    std::string payload_hash = {};  // AwsPayloadHash of the body
    absl::string_view region = {};
    absl::string_view service = {};  // "sqs"
  };

  // The header lines of the request, without the line ends: those that are signed, in the order of
  // their names, and Authorization.
  std::vector<std::string> HeaderLines(const Request& request, const AwsCredentials& credentials,
                                       absl::Time now);

 private:
  const std::string& KeyOf(absl::string_view day, const Request& request,
                           absl::string_view secret_access_key);

  std::string day_;                                     // the day that `keys_` are for
  absl::flat_hash_map<std::string, std::string> keys_;  // by region, service and secret
};

}  // namespace escapement

#endif  // COMMON_SIGNING_AWS_SIGNER_H_
