// RedactingSink: takes the target's secrets out of what results say. A careless consumer may repeat
// in its answer what it was sent.
//
// Threads: as DeliverySink.

#ifndef SERVICES_HANDLER_DELIVERY_SECRET_REDACTION_H_
#define SERVICES_HANDLER_DELIVERY_SECRET_REDACTION_H_

#include <memory>
#include <string>
#include <vector>

#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

// The texts to look for: each secret, and those parts of it that are long enough to be recognized
// ("Bearer {token}", "{key id}:{secret}", the path of a URL). The longest come first.
std::vector<std::string> SecretParts(const std::vector<std::string>& secrets);

// Replaces each part by "(secret)". Also cuts the end of a text that was cut within a part.
void Redact(const std::vector<std::string>& parts, std::string* text);

// A sink that redacts message and answer of each result and passes it to `sink`. Returns `sink`
// itself if the targets of the attempts are of a kind, or have settings, without secrets. Secrets
// are opened already. They are looked up once, at the first result with a text: most batches are
// accepted and have none.
std::shared_ptr<DeliverySink> RedactingSink(const std::vector<DeliveryAttempt>& attempts,
                                            std::shared_ptr<DeliverySink> sink);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SECRET_REDACTION_H_
