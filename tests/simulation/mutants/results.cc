// Faults between transports and handlers: what a transport learns about attempts, and which result
// it gives to which of them. The kinds with batches can mix up their entries.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/claim_takeover.pb.h"
#include "escapement/storage/v1/records.pb.h"
#include "tests/simulation/mutants/mutants.h"
#include "tests/simulation/mutants/rewriting.h"

namespace escapement::simulation {

namespace {

using handler::DeliveryAttempt;
using handler::DeliveryResult;
using handler::DeliveryStatus;
using Kind = storage::v1::TargetRecord;

// Changes the results of one call of Send.
class Retelling {
 public:
  virtual ~Retelling() = default;
  // Called before the attempts are sent.
  virtual void See(const std::vector<DeliveryAttempt>& attempts) {}
  // May change the result and its tag. False: the handler does not get it.
  virtual bool Retell(uint64_t* tag, DeliveryResult* result) = 0;
};

class RetellingTransport final : public handler::DeliveryTransport {
 public:
  using Make = std::function<std::unique_ptr<Retelling>()>;
  // Only the attempts of this kind; kNotSet: of all.
  RetellingTransport(std::unique_ptr<handler::DeliveryTransport> inner, Kind::KindCase kind,
                     Make make)
      : inner_(std::move(inner)), kind_(kind), make_(std::move(make)) {}

  // The attempts have one target key, so they are of one kind.
  void Send(std::vector<DeliveryAttempt> attempts,
            std::shared_ptr<handler::DeliverySink> sink) override {
    const auto kind = attempts.front().context->definition->delivery().target().kind_case();
    if (kind_ == Kind::KIND_NOT_SET || kind_ == kind) {
      auto retelling = make_();
      retelling->See(attempts);
      sink = std::make_shared<Sink>(std::move(sink), std::move(retelling));
    }
    inner_->Send(std::move(attempts), std::move(sink));
  }

 private:
  class Sink final : public handler::DeliverySink {
   public:
    Sink(std::shared_ptr<handler::DeliverySink> sink, std::unique_ptr<Retelling> retelling)
        : sink_(std::move(sink)), retelling_(std::move(retelling)) {}
    void OnResult(uint64_t tag, DeliveryResult result) override {
      if (retelling_->Retell(&tag, &result)) sink_->OnResult(tag, std::move(result));
    }

   private:
    const std::shared_ptr<handler::DeliverySink> sink_;
    const std::unique_ptr<Retelling> retelling_;
  };

  const std::unique_ptr<handler::DeliveryTransport> inner_;
  const Kind::KindCase kind_;
  const Make make_;
};

TransportDecorator Retold(Kind::KindCase kind, RetellingTransport::Make make) {
  return [kind, make](std::unique_ptr<handler::DeliveryTransport> inner, sim::SimProcess&) {
    return std::make_unique<RetellingTransport>(std::move(inner), kind, make);
  };
}

// A transport with one connection for each target. An attempt waits until the one before it has
// ended, also if that one hangs.
class OneConnection final : public handler::DeliveryTransport {
 public:
  explicit OneConnection(std::unique_ptr<handler::DeliveryTransport> inner)
      : lines_(std::make_shared<Lines>()) {
    lines_->inner = std::move(inner);
  }

  void Send(std::vector<DeliveryAttempt> attempts,
            std::shared_ptr<handler::DeliverySink> sink) override {
    for (DeliveryAttempt& attempt : attempts) {
      const std::string target = attempt.context->target_key;
      lines_->of[target].waiting.emplace_back(std::move(attempt), sink);
      lines_->Next(target);
    }
  }

 private:
  struct Line {
    bool busy = false;
    std::deque<std::pair<DeliveryAttempt, std::shared_ptr<handler::DeliverySink>>> waiting;
  };
  struct Lines : std::enable_shared_from_this<Lines> {
    std::unique_ptr<handler::DeliveryTransport> inner;
    std::map<std::string, Line> of;  // by target

    void Next(const std::string& target) {
      Line& line = of[target];
      if (line.busy || line.waiting.empty()) return;
      line.busy = true;
      auto [attempt, sink] = std::move(line.waiting.front());
      line.waiting.pop_front();
      std::vector<DeliveryAttempt> one;
      one.push_back(std::move(attempt));
      inner->Send(std::move(one),
                  std::make_shared<Sink>(weak_from_this(), target, std::move(sink)));
    }
  };
  class Sink final : public handler::DeliverySink {
   public:
    Sink(std::weak_ptr<Lines> lines, std::string target,
         std::shared_ptr<handler::DeliverySink> sink)
        : lines_(std::move(lines)), target_(std::move(target)), sink_(std::move(sink)) {}
    void OnResult(uint64_t tag, DeliveryResult result) override {
      sink_->OnResult(tag, std::move(result));
      const std::shared_ptr<Lines> lines = lines_.lock();
      if (lines == nullptr) return;
      lines->of[target_].busy = false;
      lines->Next(target_);
    }

   private:
    const std::weak_ptr<Lines> lines_;
    const std::string target_;
    const std::shared_ptr<handler::DeliverySink> sink_;
  };

  const std::shared_ptr<Lines> lines_;
};

// Two successive entries get each other's results.
class Crosses final : public Retelling {
 public:
  void See(const std::vector<DeliveryAttempt>& attempts) override {
    for (size_t i = 1; i < attempts.size(); i += 2) {
      other_[attempts[i - 1].tag] = attempts[i].tag;
      other_[attempts[i].tag] = attempts[i - 1].tag;
    }
  }
  bool Retell(uint64_t* tag, DeliveryResult*) override {
    if (const auto other = other_.find(*tag); other != other_.end()) *tag = other->second;
    return true;
  }

 private:
  std::map<uint64_t, uint64_t> other_;
};

// Results of this status, and with this message unless it is empty, count as another status.
class Takes final : public Retelling {
 public:
  Takes(DeliveryStatus from, const char* message, DeliveryStatus to)
      : from_(from), message_(message), to_(to) {}
  bool Retell(uint64_t*, DeliveryResult* result) override {
    if (result->status == from_ && (message_.empty() || message_ == result->message))
      result->status = to_;
    return true;
  }

 private:
  const DeliveryStatus from_;
  const std::string message_;
  const DeliveryStatus to_;
};

RetellingTransport::Make Taking(DeliveryStatus from, const char* message, DeliveryStatus to) {
  return [=] { return std::make_unique<Takes>(from, message, to); };
}

// The first result of each call of Send that has several is lost.
class LosesFirst final : public Retelling {
 public:
  void See(const std::vector<DeliveryAttempt>& attempts) override { lose_ = attempts.size() > 1; }
  bool Retell(uint64_t*, DeliveryResult*) override { return !std::exchange(lose_, false); }

 private:
  bool lose_ = false;
};

}  // namespace

std::vector<Mutant> ResultMutants() {
  return {
      {.name = "handler_waits_behind_hanging_attempts",
       .fault = "a target gets one attempt after the other, also behind one that hangs",
       .rules = {"overdue"},
       .faults = false,
       .transport =
           [](std::unique_ptr<handler::DeliveryTransport> inner, sim::SimProcess&) {
             return std::make_unique<OneConnection>(std::move(inner));
           },
       .first_seed = 2,
       .seed_step = 4},
      {.name = "sqs_mixes_up_entries",
       .fault = "two entries of a batch get each other's results",
       .rules = {"attempts", "doubled"},
       .faults = false,
       .transport = Retold(Kind::kSqs, [] { return std::make_unique<Crosses>(); })},
      {.name = "sqs_takes_failed_entry_for_accepted",
       .fault = "a request that was answered by 200 counts as accepted with all its entries",
       .rules = {"attempts"},
       .faults = false,
       .transport =
           Retold(Kind::kSqs, Taking(DeliveryStatus::kFailed, "", DeliveryStatus::kAccepted))},
      {.name = "sqs_takes_missing_entry_for_accepted",
       .fault = "an entry that the answer does not name counts as accepted",
       .rules = {"attempts"},
       .transport = Retold(Kind::kSqs,
                           Taking(DeliveryStatus::kUnknown, "missing", DeliveryStatus::kAccepted))},
      {.name = "kafka_takes_failed_batch_for_accepted",
       .fault = "records count as written although the broker refused their batch",
       .rules = {"attempts"},
       .faults = false,
       .transport =
           Retold(Kind::kKafka, Taking(DeliveryStatus::kFailed, "", DeliveryStatus::kAccepted))},
      {.name = "kafka_loses_report",
       .fault = "the report on the first of several records never comes",
       .rules = {"lost", "overdue"},
       .faults = false,
       .transport = Retold(Kind::kKafka, [] { return std::make_unique<LosesFirst>(); })},
      {.name = "email_gives_up_unsent",
       .fault = "a mail that had no room counts as refused",
       .rules = {"attempts"},
       .transport =
           Retold(Kind::kEmail, Taking(DeliveryStatus::kUnsent, "", DeliveryStatus::kRejected))},
      {.name = "transport_takes_silence_for_accepted",
       .fault = "an attempt without an answer in time counts as accepted",
       .rules = {"attempts"},
       .transport = Retold(Kind::KIND_NOT_SET, Taking(DeliveryStatus::kUnknown, "no answer in time",
                                                      DeliveryStatus::kAccepted))},
  };
}

// Faults of handlers that take over the claims of others.

namespace {

using kv::ColumnFamily;
using storage::v1::ClaimRecord;
using storage::v1::ClaimTakeoverRecord;

// The next owner takes over claims without waiting for attempts that may be under way.
Rewrite TakesOverUnwaited() {
  return {.value = [](ColumnFamily cf, const std::string& key, std::string* value) {
    const auto inflight = DecodeInflightKey(key);
    if (cf != ColumnFamily::kInflight || !inflight || !inflight->is_claim()) return;
    EditValue<ClaimRecord>(value, [](ClaimRecord* claim) {
      claim->set_delivery_timeout_max_micros(0);
      claim->set_claim_time_micros(claim->claim_time_micros() - 60'000'000);
    });
  }};
}

Rewrite ForgetsLostClaims() {
  return {.value = [](ColumnFamily cf, const std::string& key, std::string* value) {
    const auto inflight = DecodeInflightKey(key);
    if (cf != ColumnFamily::kInflight || !inflight ||
        inflight->kind != InflightKey::Kind::kTakeover)
      return;
    EditValue<ClaimTakeoverRecord>(value,
                                   [](ClaimTakeoverRecord* record) { record->set_lost_claims(0); });
  }};
}

// Says of each claim that no attempt of its former owner is under way.
Rewrite NotesThatAllIsQuiet() {
  return {.value = [](ColumnFamily cf, const std::string& key, std::string* value) {
    const auto inflight = DecodeInflightKey(key);
    if (cf != ColumnFamily::kInflight || !inflight ||
        inflight->kind != InflightKey::Kind::kTakeover)
      return;
    EditValue<ClaimTakeoverRecord>(
        value, [](ClaimTakeoverRecord* record) { record->set_quiet_from_micros(1); });
  }};
}

// Happens at takeover.
Rewrite MissesLastClaim() {
  return {.scan = [](const kv::ScanRequest& request, kv::ScanResult* result) {
    if (request.cf == ColumnFamily::kInflight && !result->entries.empty())
      result->entries.pop_back();
  }};
}

}  // namespace

std::vector<Mutant> TakeoverMutants() {
  return {
      {.name = "handler_takes_over_unwaited",
       .fault = "what a former owner has claimed is sent again at once",
       .rules = {"attempts"},
       .store = Handlers(TakesOverUnwaited),
       .first_seed = 75},
      {.name = "handler_misses_last_claim",
       .fault = "whoever takes a shard over does not see the last claim in it",
       .rules = {"lost"},
       .store = Handlers(MissesLastClaim)},
      {.name = "handler_lock_without_proof",
       .fault = "instances of another host count as dead",
       .rules = {"stale_epoch", "attempts"},
       .lock_without_proof = true},
      {.name = "handler_forgets_lost_claims",
       .fault = "it is not counted how many handlers were lost with a claim",
       .rules = {"attempts"},
       .store = Handlers(ForgetsLostClaims),
       .seed_step = 5},
      {.name = "handler_notes_that_all_is_quiet",
       .fault = "notes about claims of former owners say that these are dead",
       .rules = {"attempts"},
       .store = Handlers(NotesThatAllIsQuiet)},
  };
}

}  // namespace escapement::simulation
