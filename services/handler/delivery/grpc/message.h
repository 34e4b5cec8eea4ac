// DeliveryEncoder: writes the bytes of escapement.v1.Delivery without the message class. The part
// that the events of one queue row share is serialized once, so an attempt costs one copy.

#ifndef SERVICES_HANDLER_DELIVERY_GRPC_MESSAGE_H_
#define SERVICES_HANDLER_DELIVERY_GRPC_MESSAGE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

// Keeps the common bytes of the last row. One thread at a time.
class DeliveryEncoder {
 public:
  // Sets `*bytes` to the serialized Delivery of this attempt. A reused string keeps its memory.
  void Encode(const DeliveryAttempt& attempt, uint64_t delivery_number, std::string* bytes);

 private:
  std::shared_ptr<const DeliveryContext> context_;
  std::string common_;  // all fields but delivery_number, event_id, index, attempt and token
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_GRPC_MESSAGE_H_
