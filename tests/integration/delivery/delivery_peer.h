// DeliveryPeer: a peer of one kind of target, for tests that judge what has arrived there, whatever
// the kind.
//
// Threads: the test's main thread only.

#ifndef TESTS_INTEGRATION_DELIVERY_DELIVERY_PEER_H_
#define TESTS_INTEGRATION_DELIVERY_DELIVERY_PEER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "escapement/v1/resources.pb.h"

namespace escapement::integration {

// One event as it has arrived, once for each time.
struct Arrived {
  std::string event_id;
  std::string body;  // or a hash of it: equal for equal bodies
};

class DeliveryPeer {
 public:
  virtual ~DeliveryPeer() = default;
  virtual v1::Target target() const = 0;
  // How many arrivals there are.
  virtual size_t Count() = 0;
  // All arrivals. Empty if the kind sends no id.
  virtual std::vector<Arrived> Arrivals() = 0;
};

// "http", "https", "grpc", "sqs", "kafka", "email", "slack" or "ping". `folder`: exists,
// for the peer's files. The peer accepts everything.
std::unique_ptr<DeliveryPeer> NewDeliveryPeer(absl::string_view kind, const std::string& folder);

}  // namespace escapement::integration

#endif  // TESTS_INTEGRATION_DELIVERY_DELIVERY_PEER_H_
