// MailQueue: the attempts that wait for a connection, by server. Servers take turns; the attempts
// of one server keep their order.
//
// Not thread-safe; the transport's thread uses it.

#ifndef SERVICES_HANDLER_DELIVERY_EMAIL_MAIL_QUEUE_H_
#define SERVICES_HANDLER_DELIVERY_EMAIL_MAIL_QUEUE_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

struct QueuedMail {
  DeliveryAttempt attempt;
  std::shared_ptr<DeliverySink> sink;
  MonotonicMicros start_by = 0;  // later, too little of the timeout would be left
  MonotonicMicros deadline = 0;

  void Answer(DeliveryResult result) const;
};

class MailQueue {
 public:
  explicit MailQueue(int active_per_server_max) : active_per_server_max_(active_per_server_max) {}

  void Add(QueuedMail mail);
  // Takes the next attempt whose server has room. It counts as active until Done.
  std::optional<QueuedMail> Next();
  // An attempt of this server (target_key) is no longer active.
  void Done(const std::string& server);
  // How many attempts of the server are active.
  int Active(const std::string& server) const;

  // No attempt must start before this; kNeverMicros if none waits. It may be too early, but not too
  // late.
  MonotonicMicros earliest() const { return earliest_; }
  // Takes the attempts that have waited too long.
  std::vector<QueuedMail> TakeExpired(MonotonicMicros now);
  std::vector<QueuedMail> TakeAll();

 private:
  struct Server {
    std::string key;
    std::deque<QueuedMail> waiting;
    MonotonicMicros earliest = kNeverMicros;  // a lower bound for `waiting`
    int active = 0;
    bool ready = false;  // is in ready_
  };
  void MarkReady(Server* server);
  void ForgetIfUnused(Server* server);

  const int active_per_server_max_;
  absl::flat_hash_map<std::string, std::unique_ptr<Server>> servers_;
  std::deque<Server*> ready_;
  MonotonicMicros earliest_ = kNeverMicros;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_EMAIL_MAIL_QUEUE_H_
