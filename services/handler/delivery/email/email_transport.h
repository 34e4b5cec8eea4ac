// EmailTransport: delivers events as e-mails, to smtp:// (STARTTLS) and smtps:// servers.
//
// One thread drives all connections. Each carries one message at a time, and is kept for further
// ones of targets with the same login and certificates. At most connections_per_server_max serve
// one server (DeliveryContext::target_key); further attempts wait in order while their timeouts
// run. Certificates are checked, and every address by the AddressRule. Without TLS only targets
// that are marked as plaintext are served, and never a password is sent.
//
//   message accepted by the server                kAccepted; if some receivers were refused, with a
//                                                 message (smtp_exchange.h says why)
//   4xx                                           kFailed
//   5xx                                           kRejected, except:
//   refused login, no STARTTLS, bad certificate   kFailed: an operator can mend them
//   the server refuses the connection             kFailed
//   timeout, reset, no SMTP after the message     kUnknown
//   the same before it, no connection             kFailed, not_sent
//   half of the timeout passed while waiting for a connection                   kUnsent
//   an address, URI or template that is not valid, a host that is not allowed   kRejected
//
// If a kept connection breaks, or its server says that it closes, before the whole message is
// written, the message goes over a new one in the same attempt: nobody can have got it.
//
// No result has a password. After a login has begun, only codes of the server's refusal are shown.
//
// Threads: Send may be called from any thread. Results come on the transport's thread. The
// destructor ends outstanding attempts as kUnknown. The process must ignore SIGPIPE.

#ifndef SERVICES_HANDLER_DELIVERY_EMAIL_EMAIL_TRANSPORT_H_
#define SERVICES_HANDLER_DELIVERY_EMAIL_EMAIL_TRANSPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/net/address_rule.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

class EmailTransport final : public DeliveryTransport {
 public:
  struct Options {
    std::shared_ptr<const AddressRule> addresses;
    // Connections to one server, idle ones included. Servers limit them, often to 10 or 20.
    int connections_per_server_max = 4;
    // Connections in use, to all servers. Hanging servers can occupy all of them.
    int connections_max = 256;
    int idle_connections_max = 64;
    absl::Duration idle_timeout = absl::Seconds(30);
    // A connection is replaced after this many messages; servers have bounds of their own.
    int mails_per_connection_max = 100;
    // Until the login is done. Some servers greet late on purpose.
    absl::Duration connect_timeout = absl::Seconds(30);
    // The name that EHLO gives. Empty: libcurl's choice, the machine's name.
    std::string ehlo_name;
  };

  explicit EmailTransport(const Options& options);
  ~EmailTransport() override;
  EmailTransport(const EmailTransport&) = delete;
  EmailTransport& operator=(const EmailTransport&) = delete;

  // The target of the definition must be an e-mail target.
  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) override;

 private:
  class Loop;
  const std::unique_ptr<Loop> loop_;
};

// The name of EHLO for a machine: its name if it is a full one, else its first address as a literal
// (RFC 5321, 4.1.1.1). `addresses`: "192.0.2.1" or "2001:db8::1". Without both, the name as it is.
std::string EhloNameOf(absl::string_view host, const std::vector<std::string>& addresses);

// The flags of the e-mail transport, and the transport that they describe.
//
// Threads: call after the flags are parsed, on one thread.

// Appends one sentence for each flag with an invalid value.
void ValidateEmailFlags(std::vector<std::string>& errors);

std::unique_ptr<DeliveryTransport> NewEmailTransportFromFlags(
    std::shared_ptr<const AddressRule> addresses);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_EMAIL_EMAIL_TRANSPORT_H_
