// SendLoop: holds claimed events until they are due, sends them, and takes their results; bounds
// how many are out, in all and for each target.
//
// Room is reserved before a claim is made, so that what is claimed can be sent at its due time.
//
// Threads: one, the handler's executor; results come from any thread and are posted there in
// batches.

#ifndef SERVICES_HANDLER_DELIVERY_SEND_LOOP_H_
#define SERVICES_HANDLER_DELIVERY_SEND_LOOP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/runtime/runtime.h"
#include "services/handler/claims/claim.h"
#include "services/handler/claims/claim_lead.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/options.h"
#include "services/handler/stats.h"

namespace escapement::handler {

// A place where events go.
struct SendTarget {
  uint64_t out = 0;        // reserved: claimed and not answered
  uint64_t sent = 0;       // of `out`
  uint64_t most_sent = 0;  // since `counted_since`
  uint64_t limit = 0;      // of `out` without what is claimed early; 0: not set yet
  double rate = 0;         // answers a second
  bool slow = false;
  std::optional<absl::Duration> full_since;  // Clock::Elapsed
  // Answers since `counted_since`: a target may have out what it answers in a quarter of its
  // timeout, so that what waits in the transport for a connection does not time out there.
  uint64_t answers = 0;
  uint64_t answers_ever = 0;
  absl::Duration counted_since;  // Clock::Elapsed
  absl::Duration timeout;
};

class SendLoop {
 public:
  // Of an event that holds a token that the consumer gives back.
  using TokenMaker = std::function<std::string(const GrantId& grant, uint64_t index)>;

  // `on_results` is called on `executor` after a batch of results was handed to the claims' owners.
  // `options` and `lead` outlive it.
  SendLoop(const HandlerOptions& options, const ClaimLead& lead, Runtime& runtime,
           std::shared_ptr<Executor> executor, DeliveryTransport& transport, HandlerStats& stats,
           std::function<void()> on_results);
  ~SendLoop();

  // Before the first claim with on_release is added.
  void SetTokenMaker(TokenMaker maker) { token_maker_ = std::move(maker); }

  // How many more events of the target may be claimed: its limit, and what it answers in the time
  // by which claims are made earlier than usual. Notes when it has become full or has room again.
  uint64_t Room(const std::string& target_key);
  bool IsSlow(const std::string& target_key);
  void Reserve(const std::string& target_key, uint64_t events);
  void Unreserve(const std::string& target_key, uint64_t events);

  // Sends events [first, first + count) of the entry once the store's time has reached `due`. They
  // are reserved.
  void Add(std::shared_ptr<Claim> claim, uint32_t entry, uint64_t first, uint64_t count,
           absl::Time due);

  // `now` is KvClient::NowLow().
  void SendDue(absl::Time now);
  // When the next of those that wait is due.
  std::optional<absl::Time> NextDue() const;

  uint64_t out() const { return out_; }
  bool full() const { return out_ >= OutMax(); }

 private:
  class Sink;
  struct Waiting {
    std::shared_ptr<Claim> claim;
    uint32_t entry = 0;
    uint64_t first = 0;
    uint64_t count = 0;
  };
  // A send under way. Its tag is its place and how often the place has been used.
  struct Slot {
    std::shared_ptr<Claim> claim;
    uint32_t entry = 0;
    uint32_t uses = 0;
    uint64_t index = 0;
    int64_t dispatch_micros = 0;
    uint64_t answers_before = 0;  // of the target, ever
  };
  void Send(absl::Time now, absl::Time due, const Waiting& waiting,
            std::vector<DeliveryAttempt>& batch);
  void OnResults();
  // True if the target has answered nothing since it had answered `answers_before` times.
  bool OnAnswer(const DeliveryContext& context, DeliveryStatus status, uint64_t answers_before);
  // Null: nothing is known of it.
  SendTarget* FindTarget(const std::string& target_key);
  // Of all targets together.
  uint64_t OutMax() const;
  void UpdateLimit(SendTarget& target, absl::Duration elapsed) const;

  const HandlerOptions& options_;
  const ClaimLead& lead_;
  Runtime& runtime_;
  std::shared_ptr<Executor> executor_;
  DeliveryTransport& transport_;
  HandlerStats& stats_;
  std::function<void()> on_results_;
  TokenMaker token_maker_;
  std::shared_ptr<Sink> sink_;
  std::map<std::string, SendTarget> targets_;  // those with something out, and slow ones
  std::map<std::string, SendTarget>::iterator last_found_ = targets_.end();
  uint64_t out_ = 0;
  std::multimap<absl::Time, Waiting> waiting_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SEND_LOOP_H_
