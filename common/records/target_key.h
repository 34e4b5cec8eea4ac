// TargetKeyOf: the key of targets that share connections, bounds and a circuit breaker.

#ifndef COMMON_RECORDS_TARGET_KEY_H_
#define COMMON_RECORDS_TARGET_KEY_H_

#include <string>

#include "escapement/storage/v1/records.pb.h"

namespace escapement {

// The kind, a colon, and:
//
//   http, ping, slack   scheme://host:port (slack: empty while the URL is sealed)
//   grpc                the URI; with TLS also a hash of the certificates
//   sqs                 the queue's URL; before it the endpoint, if that is elsewhere
//   kafka               brokers/topic
//   email               the server's URI
//
// It has no secret. Pure.
std::string TargetKeyOf(const storage::v1::TargetRecord& target);

}  // namespace escapement

#endif  // COMMON_RECORDS_TARGET_KEY_H_
