#include "tests/simulation/actors/consumer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/uid.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::simulation {
namespace {

// A one-off event shows it by its token only.
bool IsThrottled(const handler::DeliveryAttempt& attempt) {
  return attempt.context->definition->has_throttle() || !attempt.token.empty();
}

SendResult ResultOf(handler::DeliveryStatus status) {
  switch (status) {
    case handler::DeliveryStatus::kAccepted:
      return SendResult::kAccepted;
    case handler::DeliveryStatus::kFailed:
      return SendResult::kFailed;
    case handler::DeliveryStatus::kRejected:
      return SendResult::kRejected;
    case handler::DeliveryStatus::kUnknown:
      return SendResult::kUnknown;
    case handler::DeliveryStatus::kUnsent:  // never of an attempt that reached the consumer
      break;
  }
  return SendResult::kNone;
}

using Target = storage::v1::TargetRecord;

constexpr absl::Duration kPoisonKillsAfter = absl::Milliseconds(1);
constexpr uint64_t kPoisonOneOf = 20;

const char* KindOf(Target::KindCase kind) {
  switch (kind) {
    case Target::kGrpc:
      return "grpc";
    case Target::kSqs:
      return "sqs";
    case Target::kKafka:
      return "kafka";
    case Target::kEmail:
      return "email";
    case Target::kPing:
      return "ping";
    default:
      return "http";
  }
}

handler::DeliveryResult Told(handler::DeliveryStatus status, const char* message,
                             absl::Duration retry_after = absl::ZeroDuration()) {
  return {.status = status, .message = message, .retry_after = retry_after};
}

}  // namespace

// One attempt, from the moment its sender sends it.
struct Consumer::Sending {
  handler::DeliveryAttempt attempt;
  std::shared_ptr<handler::DeliverySink> sink;
  std::shared_ptr<sim::ProcessState> handler;
  std::weak_ptr<bool> transport;
  std::string sender;
  absl::Time sent;
  bool answered = false;
  SendResult result = SendResult::kNone;
  absl::Time result_time = absl::InfiniteFuture();
  sim::SimWorld::EventId timeout = 0;
  std::optional<size_t> receipt;  // once it has arrived
  std::vector<Receipt>* receipts = nullptr;

  Target::KindCase kind() const {
    return attempt.context->definition->delivery().target().kind_case();
  }

  // Tells the sender the result; runs in the handler's process.
  void Result(sim::SimWorld& world, handler::DeliveryResult delivered) {
    if (answered && receipt.has_value()) (*receipts)[*receipt].late = true;
    if (std::exchange(answered, true) || transport.expired()) return;
    world.Forget(timeout);
    result = ResultOf(delivered.status);
    result_time = world.Now();
    WriteDown();
    sink->OnResult(attempt.tag, std::move(delivered));
  }

  // Copies the result into the receipt. The attempt may arrive after its sender has given it up.
  void WriteDown() {
    if (!receipt.has_value()) return;
    (*receipts)[*receipt].result = result;
    (*receipts)[*receipt].result_time = result_time;
  }
};

class Consumer::Transport final : public handler::DeliveryTransport {
 public:
  Transport(Consumer& consumer, sim::SimProcess& handler, std::string sender)
      : consumer_(consumer), handler_(handler.state()), sender_(std::move(sender)) {}

  void Send(std::vector<handler::DeliveryAttempt> attempts,
            std::shared_ptr<handler::DeliverySink> sink) override {
    sim::SimWorld& world = consumer_.network_.world();
    Batch batch;
    for (handler::DeliveryAttempt& attempt : attempts) {
      auto sending = NewSending(std::move(attempt), sink);
      if (consumer_.IsPoison(*sending)) {
        world.At(world.Elapsed() + kPoisonKillsAfter, consumer_.process_.state(), world.NewLine(),
                 "poison", [this, alive = std::weak_ptr<bool>(alive_)] {
                   if (!alive.expired()) consumer_.kill_(std::string(handler_->name));
                 });
        continue;
      }
      if (IsUnsent(*sending)) {
        world.At(world.Elapsed() + sending->attempt.context->timeout / 2, handler_, world.NewLine(),
                 "no room", [&world, sending] {
                   sending->Result(world, Told(handler::DeliveryStatus::kUnsent, "no room"));
                 });
        continue;
      }
      sending->timeout = world.At(
          world.Elapsed() + sending->attempt.context->timeout, handler_, world.NewLine(),
          "delivery timeout", [&world, sending] {
            sending->Result(world, Told(handler::DeliveryStatus::kUnknown, "no answer in time"));
          });
      if (!SharesRequests(*sending)) {
        consumer_.network_.Send(handler_, "consumer",
                                [consumer = &consumer_, sending] { consumer->Receive(sending); });
        continue;
      }
      batch.push_back(std::move(sending));
      if (batch.size() == kBatchMax) Ship(std::exchange(batch, {}));
    }
    if (!batch.empty()) Ship(std::move(batch));
  }

 private:
  static constexpr size_t kBatchMax = 10;

  std::shared_ptr<Sending> NewSending(handler::DeliveryAttempt attempt,
                                      std::shared_ptr<handler::DeliverySink> sink) {
    auto sending = std::make_shared<Sending>();
    sending->attempt = std::move(attempt);
    sending->sink = std::move(sink);
    sending->handler = handler_;
    sending->transport = alive_;
    sending->sender = sender_;
    sending->sent = consumer_.network_.world().Now();
    sending->receipts = &consumer_.receipts_;
    return sending;
  }

  // Once for an event: it is sent when it comes again.
  bool IsUnsent(const Sending& sending) const {
    if (sending.kind() != Target::kEmail || consumer_.habits_.unsent == 0) return false;
    const std::string& id = sending.attempt.event_id;
    sim::SimRandom random(consumer_.network_.world().seed(), "unsent " + id);
    return random.Below(1'000'000) < consumer_.habits_.unsent &&
           consumer_.unsent_.insert(id).second;
  }

  static bool SharesRequests(const Sending& sending) {
    return (sending.kind() == Target::kSqs || sending.kind() == Target::kKafka) &&
           !IsThrottled(sending.attempt);
  }

  void Ship(Batch batch) {
    consumer_.network_.Send(handler_, "consumer", [consumer = &consumer_, batch] {
      batch.front()->kind() == Target::kSqs ? consumer->ReceiveSqs(batch)
                                            : consumer->ReceiveKafka(batch);
    });
  }

  Consumer& consumer_;
  const std::shared_ptr<sim::ProcessState> handler_;
  const std::string sender_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

std::unique_ptr<handler::DeliveryTransport> Consumer::NewTransport(sim::SimProcess& handler,
                                                                   std::string sender) {
  return std::make_unique<Transport>(*this, handler, std::move(sender));
}

void Consumer::Arrive(const std::shared_ptr<Sending>& sending) {
  sim::SimWorld& world = network_.world();
  const handler::DeliveryContext& context = *sending->attempt.context;
  Receipt receipt;
  receipt.time = world.Now();
  receipt.event_id = sending->attempt.event_id;
  receipt.occurrence = context.occurrence;
  if (!context.occurrence.empty()) receipt.uid = Uid::FromBytes(context.definition->uid()).ToHex();
  receipt.index = sending->attempt.index;
  receipt.run_count = context.run_count;
  receipt.attempt = sending->attempt.attempt;
  receipt.version = context.definition->version();
  receipt.nominal = context.nominal_time;
  receipt.launch = context.launch_time;
  receipt.body_hash = StableHash64(context.payload);
  receipt.sender = sending->sender;
  receipt.sent = sending->sent;
  receipt.timeout = context.timeout;
  receipt.token = sending->attempt.token;
  receipt.throttled = IsThrottled(sending->attempt);
  receipt.kind = KindOf(sending->kind());
  world.Note(absl::StrCat("receipt ", receipt.event_id, " ", receipt.occurrence, "[", receipt.index,
                          "] attempt ", receipt.attempt, " from ", receipt.sender));
  sending->receipt = receipts_.size();
  receipts_.push_back(std::move(receipt));
  sending->WriteDown();
}

bool Consumer::IsPoison(const Sending& sending) {
  const handler::DeliveryAttempt& attempt = sending.attempt;
  if (!poison_.has_value()) {
    const sim::SimWorld& world = network_.world();
    if (kill_ == nullptr || world.Elapsed() > habits_.poison_within) return false;
    sim::SimRandom random(world.seed(), "poison " + attempt.event_id);
    if (random.Below(kPoisonOneOf) > 0) return false;
    const handler::DeliveryContext& context = *attempt.context;
    poison_ = {.event_id = attempt.event_id,
               .occurrence = context.occurrence,
               .index = attempt.index,
               .throttled = IsThrottled(attempt)};
    if (!context.occurrence.empty())
      poison_->uid = Uid::FromBytes(context.definition->uid()).ToHex();
  }
  if (poison_->event_id != attempt.event_id) return false;
  poison_->sent.push_back(network_.world().Now());
  return true;
}

// Drawn from the attempt's name, so that every sender of an attempt meets the same behaviour.
Consumer::Drawn Consumer::Draw(const Sending& sending) {
  const std::string attempt = absl::StrCat(sending.attempt.event_id, "/", sending.attempt.attempt);
  // The consumer once took this attempt without answering. It repeats that even if its habits have
  // changed since.
  if (hung_.contains(attempt)) return {.fate = Fate::kHangs};
  if (!habits_.hangs_for.empty() &&
      sending.attempt.context->definition->schedule_id() == habits_.hangs_for)
    return {.fate = Fate::kHangs};
  sim::SimRandom random(network_.world().seed(), attempt);
  uint64_t lot = random.Below(1'000'000);
  auto drawn = [&lot](uint32_t share) {
    if (lot < share) return true;
    lot -= share;
    return false;
  };
  if (drawn(habits_.fails)) return {.fate = Fate::kFailed};
  if (drawn(habits_.asks_for_delay)) return {.fate = Fate::kAsksForDelay};
  if (drawn(habits_.rejects)) {
    const bool of_run = !sending.attempt.context->occurrence.empty();
    return {.fate = of_run && !habits_.rejects_runs ? Fate::kFailed : Fate::kRejected};
  }
  if (drawn(habits_.hangs)) {
    hung_.insert(attempt);
    return {.fate = Fate::kHangs};
  }
  const absl::Duration longest =
      drawn(habits_.dawdles) ? habits_.dawdle_max : absl::Duration(absl::Milliseconds(2));
  return {.fate = Fate::kAccepted, .after = random.Between(absl::ZeroDuration(), longest)};
}

void Consumer::Receive(const std::shared_ptr<Sending>& sending) {
  Arrive(sending);
  if (worker_ != nullptr && !sending->attempt.token.empty() &&
      worker_->Has(sending->attempt.event_id))
    return Accept(sending, absl::ZeroDuration());
  using handler::DeliveryStatus;
  const Drawn drawn = Draw(*sending);
  switch (drawn.fate) {
    case Fate::kFailed:
      return Answer(sending, Told(DeliveryStatus::kFailed, "500"), absl::ZeroDuration());
    case Fate::kAsksForDelay:
      return Answer(sending, Told(DeliveryStatus::kFailed, "429", absl::Milliseconds(700)),
                    absl::ZeroDuration());
    case Fate::kRejected:
      return Answer(sending, Told(DeliveryStatus::kRejected, "400"), absl::ZeroDuration());
    case Fate::kHangs:
      return Hang(sending);
    case Fate::kAccepted:
      return Accept(sending, drawn.after);
  }
}

void Consumer::ArriveTogether(const Batch& batch) {
  ++batches_;
  for (const std::shared_ptr<Sending>& sending : batch) {
    Arrive(sending);
    receipts_[*sending->receipt].batch = batches_;
  }
}

// If the first entry hangs, the request gets no answer. Any other entry that hangs is missing in
// the answer.
void Consumer::ReceiveSqs(const Batch& batch) {
  using handler::DeliveryStatus;
  ArriveTogether(batch);
  std::vector<handler::DeliveryResult> results;
  absl::Duration after = absl::ZeroDuration();
  for (const std::shared_ptr<Sending>& sending : batch) {
    const Drawn drawn = Draw(*sending);
    after = std::max(after, drawn.after);
    switch (drawn.fate) {
      case Fate::kFailed:
        results.push_back(Told(DeliveryStatus::kFailed, "500"));
        break;
      case Fate::kAsksForDelay:  // a queue asks for a delay of whole requests only
        results.push_back(Told(DeliveryStatus::kFailed, "429"));
        break;
      case Fate::kRejected:
        results.push_back(Told(DeliveryStatus::kRejected, "400"));
        break;
      case Fate::kHangs:
        if (results.empty()) return;
        results.push_back(Told(DeliveryStatus::kUnknown, "missing"));
        break;
      case Fate::kAccepted:
        results.push_back(Told(DeliveryStatus::kAccepted, ""));
    }
  }
  AnswerBatch(batch, std::move(results), after);
}

// The broker writes the records together, and the first one's fate is that of all. Only a record
// that is refused for its size is refused alone.
void Consumer::ReceiveKafka(const Batch& batch) {
  using handler::DeliveryStatus;
  ArriveTogether(batch);
  const Drawn drawn = Draw(*batch.front());
  if (drawn.fate == Fate::kHangs) return;
  const bool failed = drawn.fate == Fate::kFailed || drawn.fate == Fate::kAsksForDelay;
  std::vector<handler::DeliveryResult> results(
      batch.size(),
      failed ? Told(DeliveryStatus::kFailed, "500") : Told(DeliveryStatus::kAccepted, ""));
  if (drawn.fate == Fate::kRejected) results[0] = Told(DeliveryStatus::kRejected, "400");
  AnswerBatch(batch, std::move(results), drawn.after);
}

void Consumer::Hang(const std::shared_ptr<Sending>& sending) {
  const Receipt& receipt = receipts_[*sending->receipt];
  if (worker_ != nullptr && receipt.throttled) worker_->Arrived(*sending->receipt, receipt);
}

void Consumer::Accept(const std::shared_ptr<Sending>& sending, absl::Duration after) {
  const size_t index = *sending->receipt;
  handler::DeliveryResult accepted = Told(handler::DeliveryStatus::kAccepted, "");
  if (worker_ != nullptr && receipts_[index].throttled) {
    if (!receipts_[index].token.empty()) {
      accepted.work = worker_->Accept(index, receipts_[index]);
    } else {
      worker_->Arrived(index, receipts_[index]);
      sim::SimWorld& world = network_.world();
      world.At(world.Elapsed() + after, process_.state(), world.NewLine(), "worker",
               [this, index] { worker_->Answered(index, receipts_[index]); });
    }
  }
  Answer(sending, std::move(accepted), after);
}

void Consumer::Answer(const std::shared_ptr<Sending>& sending, handler::DeliveryResult result,
                      absl::Duration after) {
  sim::SimWorld& world = network_.world();
  receipts_[*sending->receipt].asked = result.retry_after;
  world.At(world.Elapsed() + after, process_.state(), world.NewLine(), "consumer answers",
           [this, &world, sending, result = std::move(result)] {
             network_.Send(process_.state(), sending->handler->name, [&world, sending, result] {
               if (!sending->handler->dead) sending->Result(world, result);
             });
           });
}

void Consumer::AnswerBatch(const Batch& batch, std::vector<handler::DeliveryResult> results,
                           absl::Duration after) {
  sim::SimWorld& world = network_.world();
  world.At(world.Elapsed() + after, process_.state(), world.NewLine(), "consumer answers a batch",
           [this, &world, batch, results = std::move(results)] {
             const std::shared_ptr<sim::ProcessState> handler = batch.front()->handler;
             network_.Send(process_.state(), handler->name, [&world, batch, results, handler] {
               for (size_t i = 0; i < batch.size() && !handler->dead; ++i)
                 batch[i]->Result(world, results[i]);
             });
           });
}

}  // namespace escapement::simulation
