// The bytes of escapement.v1.Delivery, written without the message class: what the events of one
// queue row have in common is serialized once, and an attempt costs one copy.

#ifndef SERVICES_HANDLER_DELIVERY_GRPC_MESSAGE_H_
#define SERVICES_HANDLER_DELIVERY_GRPC_MESSAGE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

// Keeps the common bytes of the last row of many events. One thread at a time.
class DeliveryEncoder {
 public:
  // Sets `*bytes` to the serialized Delivery of this attempt. (Reused, it keeps its memory.)
  void Encode(const DeliveryAttempt& attempt, uint64_t delivery_number, std::string* bytes);

 private:
  std::shared_ptr<const DeliveryContext> context_;
  std::string common_;  // all fields but delivery_number, event_id, index, attempt and token
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_GRPC_MESSAGE_H_
