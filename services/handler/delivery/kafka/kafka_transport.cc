#include "services/handler/delivery/kafka/kafka_transport.h"

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/flags/flag.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/delivery/kafka/outstanding.h"
#include "services/handler/delivery/kafka/producer.h"
#include "services/handler/delivery/kafka/producer_table.h"
#include "services/handler/delivery/result_batch.h"

ABSL_FLAG(
    int, kafka_producers_max, 64,
    "Kafka clusters (brokers, certificates, credentials, class of timeout) that are "
    "connected to at once; each takes some 5 to 10 threads and at most 64 MiB of waiting records");
ABSL_FLAG(absl::Duration, kafka_linger, absl::Milliseconds(1),
          "how long a Kafka record waits for others of its batch");

namespace escapement::handler {

void ValidateKafkaFlags(std::vector<std::string>& errors) {
  if (absl::GetFlag(FLAGS_kafka_producers_max) < 1 ||
      absl::GetFlag(FLAGS_kafka_producers_max) > 1024) {
    errors.push_back("--kafka_producers_max: must be from 1 to 1024");
  }
  if (absl::GetFlag(FLAGS_kafka_linger) < absl::ZeroDuration() ||
      absl::GetFlag(FLAGS_kafka_linger) > absl::Milliseconds(100)) {
    errors.push_back("--kafka_linger: must be from 0 to 100 ms");
  }
}

std::unique_ptr<DeliveryTransport> NewKafkaTransportFromFlags(
    std::shared_ptr<const AddressRule> addresses) {
  KafkaTransport::Options options;
  options.addresses = std::move(addresses);
  options.producers_max = static_cast<size_t>(absl::GetFlag(FLAGS_kafka_producers_max));
  options.linger = absl::GetFlag(FLAGS_kafka_linger);
  return std::make_unique<KafkaTransport>(options);
}

namespace {

// Producers are looked after in steps of this, while there are any.
constexpr MonotonicMicros kTendEvery = 100'000;
// librdkafka connects again after at most this time (KafkaTuning::reconnect_backoff_max).
constexpr MonotonicMicros kReconnectMicros = 2'000'000;

}  // namespace

// One thread that gives records to librdkafka, takes its reports, and watches deadlines.
class KafkaTransport::Core final : public KafkaProducer::Listener {
 public:
  explicit Core(const Options& options)
      : options_(options),
        producers_(ProducerTable::Options{.producers_max = options.producers_max,
                                          .idle_timeout = options.idle_timeout}),
        thread_([this] { Run(); }) {}

  ~Core() override {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
      wakeup_.Signal();
    }
    thread_.join();
    AnswerAll();
    producers_.AwaitOpening();
    producers_.CloseAll();
  }

  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) {
    const MonotonicMicros now = MonotonicNow();
    absl::MutexLock lock(&mutex_);
    inbox_.push_back({.attempts = std::move(attempts), .sink = std::move(sink), .begin = now});
    Wake();
  }

  void OnReport(KafkaAttempt* attempt, const KafkaReport& report) override {
    if (report.error == RD_KAFKA_RESP_ERR_NO_ERROR)
      return End(attempt, {.status = DeliveryStatus::kAccepted, .message = {}});
    End(attempt, attempt->answered ? DeliveryResult() : ResultOfReport(report));
  }

 private:
  using Entry = ProducerTable::Entry;
  using State = ProducerTable::State;

  struct Batch {
    std::vector<DeliveryAttempt> attempts;
    std::shared_ptr<DeliverySink> sink;
    MonotonicMicros begin = 0;  // when Send was called
  };
  struct Opened {
    uint64_t id = 0;
    absl::Status status;
  };
  // Other threads leave these for this one.
  struct News {
    std::vector<Batch> inbox;
    std::vector<uint64_t> ready;
    std::vector<Opened> opened;
  };

  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (waiting_) wakeup_.Signal();
  }

  void Run() {
    pthread_setname_np(pthread_self(), "kafka-transport");
    MonotonicMicros tend_at = 0;
    News news;
    while (AwaitNews(tend_at, news)) {
      for (const Opened& opened : news.opened) OnOpened(opened);
      for (Batch& batch : news.inbox) {
        SendBatch(std::move(batch));
        // So that reports do not wait for all that is to be sent.
        ServeReady();
        answers_.Give();
      }
      ServeIds(news.ready);
      const MonotonicMicros now = MonotonicNow();
      deadlines_.Expire(now, [this](KafkaAttempt* attempt) { OnTimeout(attempt); });
      answers_.Give();
      if (now < tend_at) continue;
      Tend(now);
      answers_.Give();
      tend_at = now + kTendEvery;
    }
  }

  // Waits until there is something to do. Returns false if the transport is stopping.
  bool AwaitNews(MonotonicMicros tend_at, News& news) {
    news.inbox.clear();
    news.ready.clear();
    news.opened.clear();
    const MonotonicMicros until =
        producers_.size() == 0 ? deadlines_.next() : std::min(tend_at, deadlines_.next());
    absl::MutexLock lock(&mutex_);
    while (!stopping_ && inbox_.empty() && ready_.empty() && opened_.empty()) {
      const MonotonicMicros now = MonotonicNow();
      if (now >= until) break;
      waiting_ = true;
      wakeup_.WaitWithTimeout(
          &mutex_, absl::Microseconds(std::min<MonotonicMicros>(until - now, 60'000'000)));
      waiting_ = false;
    }
    if (stopping_) return false;
    news.inbox.swap(inbox_);
    news.ready.swap(ready_);
    news.opened.swap(opened_);
    return true;
  }

  void ServeReady() {
    std::vector<uint64_t> ready;
    {
      absl::MutexLock lock(&mutex_);
      if (ready_.empty()) return;
      ready.swap(ready_);
    }
    ServeIds(ready);
  }

  void ServeIds(const std::vector<uint64_t>& ids) {
    for (const uint64_t id : ids) {
      Entry* entry = producers_.FindId(id);
      if (entry == nullptr || entry->state == State::kOpening) continue;
      entry->producer->Serve();
      if (entry->state == State::kOpen && !entry->producer->fatal().empty()) Replace(entry);
      if (entry->state == State::kOpen && entry->barred_since == 0 && entry->producer->IsBarred())
        entry->barred_since = MonotonicNow();
    }
  }

  void SendBatch(Batch batch) {
    const storage::v1::DefinitionRecord* definition = nullptr;
    absl::Duration timeout;
    absl::StatusOr<Entry*> entry = nullptr;
    const MonotonicMicros now = MonotonicNow();
    for (DeliveryAttempt& attempt : batch.attempts) {
      const DeliveryContext& context = *attempt.context;
      const bool same = context.definition.get() == definition && context.timeout == timeout &&
                        (!entry.ok() || (*entry)->state != State::kBroken);
      if (!same) {
        definition = context.definition.get();
        timeout = context.timeout;
        entry = EntryOf(definition->delivery().target().kafka(), timeout, batch.begin);
      }
      if (!entry.ok()) {
        answers_.Add(batch.sink, attempt.tag, ResultOfStatus(entry.status()));
        continue;
      }
      Start(*entry, std::move(attempt), batch, now);
    }
  }

  void Start(Entry* entry, DeliveryAttempt&& sent, const Batch& batch, MonotonicMicros now) {
    KafkaAttempt* attempt = entry->producer->NewAttempt();
    attempt->deadline =
        batch.begin + std::max<int64_t>(0, absl::ToInt64Microseconds(sent.context->timeout));
    attempt->attempt = std::move(sent);
    attempt->sink = batch.sink;
    deadlines_.Add(attempt);
    entry->used = batch.begin;
    entry->state == State::kOpening ? entry->waiting.push_back(attempt) : Produce(attempt, now);
  }

  void Produce(KafkaAttempt* attempt, MonotonicMicros now) {
    KafkaProducer& producer = *attempt->producer;
    const DeliveryContext& context = *attempt->attempt.context;
    if (now > attempt->deadline - absl::ToInt64Microseconds(context.timeout) / 2) {
      return End(attempt, {.status = DeliveryStatus::kUnsent,
                           .message = "timed out before it could be sent"});
    }
    const rd_kafka_resp_err_t error =
        producer.Produce(attempt, context.definition->delivery().target().kafka().topic());
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return;
    End(attempt, ResultOfReport({.error = error, .alone = true, .trouble = producer.Trouble()}));
  }

  // Frees an attempt that librdkafka does not have.
  void End(KafkaAttempt* attempt, DeliveryResult result) {
    if (!attempt->answered) {
      deadlines_.Remove(attempt);
      Answer(attempt, std::move(result));
    }
    attempt->producer->Free(attempt);
  }

  // The entry that takes attempts of a target; opens one if needed. INVALID_ARGUMENT: the target
  // can never be used. RESOURCE_EXHAUSTED: there is no room. FAILED_PRECONDITION: other failures.
  absl::StatusOr<Entry*> EntryOf(const storage::v1::KafkaTargetRecord& target,
                                 absl::Duration timeout, MonotonicMicros now) {
    const absl::Duration message_timeout = KafkaMessageTimeout(timeout);
    const std::string key = KafkaClusterKey(target, message_timeout);
    Entry* entry = producers_.Find(key);
    if (entry != nullptr && entry->state == State::kBroken) return entry->why;
    if (entry != nullptr && entry->state == State::kOpen && producers_.HasTooManyTopics(*entry)) {
      producers_.Retire(entry);
      entry = nullptr;
    }
    if (entry != nullptr) return entry;
    ASSIGN_OR_RETURN(std::vector<KafkaProperty> properties,
                     KafkaProperties(target, {.linger = options_.linger,
                                              .message_timeout = message_timeout,
                                              .unknown_topic_after = options_.unknown_topic_after,
                                              .metadata_refresh = options_.metadata_refresh,
                                              .connect_timeout = options_.connect_timeout}));
    KafkaProducer::Options made = {.properties = std::move(properties),
                                   .password = target.sasl_password(),
                                   .addresses = options_.addresses,
                                   .listener = this,
                                   .wake = [this](uint64_t id) { OnWake(id); }};
    entry = producers_.Open(key, std::move(made), now, [this](uint64_t id, absl::Status status) {
      absl::MutexLock lock(&mutex_);
      opened_.push_back({.id = id, .status = std::move(status)});
      Wake();
    });
    if (entry == nullptr)
      return absl::ResourceExhaustedError("too many Kafka clusters are in use at once");
    return entry;
  }

  static DeliveryResult ResultOfStatus(const absl::Status& status) {
    return {.status = absl::IsInvalidArgument(status)     ? DeliveryStatus::kRejected
                      : absl::IsResourceExhausted(status) ? DeliveryStatus::kUnsent
                                                          : DeliveryStatus::kFailed,
            .message = CleanText(status.message(), kDeliveryMessageBytesMax)};
  }

  void OnOpened(const Opened& opened) {
    Entry* entry = producers_.FindId(opened.id);
    std::vector<KafkaAttempt*> waiting = std::move(entry->waiting);
    entry->waiting.clear();
    entry->state = State::kOpen;
    const MonotonicMicros now = MonotonicNow();
    if (!opened.status.ok()) producers_.Break(entry, opened.status, now);
    for (KafkaAttempt* attempt : waiting) {
      if (opened.status.ok() && !attempt->answered) {
        Produce(attempt, now);
      } else {
        End(attempt, ResultOfStatus(opened.status));
      }
    }
    // It may have been woken before it was open.
    if (opened.status.ok()) ServeIds({opened.id});
  }

  void OnTimeout(KafkaAttempt* attempt) {
    // While the producer opens, its trouble must not be read.
    const std::string trouble = attempt->produced ? attempt->producer->Trouble() : "";
    Answer(attempt,
           {.status = DeliveryStatus::kUnknown,
            .message = CleanText(absl::StrCat("timed out", trouble.empty() ? "" : ": ", trouble),
                                 kDeliveryMessageBytesMax)});
    // Its report, or the end of the opening, frees it.
  }

  void Answer(KafkaAttempt* attempt, DeliveryResult result) {
    attempt->answered = true;
    answers_.Add(attempt->sink, attempt->attempt.tag, std::move(result));
  }

  // librdkafka has given the producer up.
  void Replace(Entry* entry) {
    const bool at_once = entry->producer->delivered() > 0;
    if (at_once) {
      producers_.Retire(entry);
    } else {
      producers_.Break(entry, absl::FailedPreconditionError(entry->producer->fatal()),
                       MonotonicNow());
    }
    entry->producer->Purge(/*in_flight=*/true);
  }

  void Tend(MonotonicMicros now) {
    producers_.ForEach([this, now](Entry* entry) {
      if (entry->state != State::kOpen || entry->barred_since == 0) return;
      if (!entry->producer->IsBarred()) {
        entry->barred_since = 0;
      } else if (entry->barred_since + absl::ToInt64Microseconds(options_.barred_grace) <= now) {
        entry->producer->Purge(/*in_flight=*/false);
        // Until the next purge librdkafka connects again, and a record may get through.
        entry->barred_since = now + kReconnectMicros;
      }
    });
    producers_.CloseUnused(now);
  }

  void OnWake(uint64_t id) {
    absl::MutexLock lock(&mutex_);
    if (std::find(ready_.begin(), ready_.end(), id) == ready_.end()) ready_.push_back(id);
    Wake();
  }

  // Called after the thread has ended.
  void AnswerAll() {
    const DeliveryResult stopped = {.status = DeliveryStatus::kUnknown,
                                    .message = "the platform is stopping"};
    producers_.ForEach([this, &stopped](Entry* entry) {
      entry->producer->ForEachAttempt([this, &stopped](KafkaAttempt* attempt) {
        if (!attempt->answered) Answer(attempt, stopped);
      });
    });
    absl::MutexLock lock(&mutex_);
    for (const Batch& batch : inbox_) {
      for (const DeliveryAttempt& attempt : batch.attempts)
        answers_.Add(batch.sink, attempt.tag, stopped);
    }
    inbox_.clear();
    answers_.Give();
  }

  const Options options_;

  // Used only by the thread.
  ResultBatch answers_;  // given before each wait
  ProducerTable producers_;
  KafkaDeadlines deadlines_;

  absl::Mutex mutex_;
  absl::CondVar wakeup_;
  std::vector<Batch> inbox_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> ready_ ABSL_GUARDED_BY(mutex_);  // producers to serve, each once
  std::vector<Opened> opened_ ABSL_GUARDED_BY(mutex_);
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses the rest
};

KafkaTransport::KafkaTransport(const Options& options) : core_(std::make_unique<Core>(options)) {}

KafkaTransport::~KafkaTransport() = default;

void KafkaTransport::Send(std::vector<DeliveryAttempt> attempts,
                          std::shared_ptr<DeliverySink> sink) {
  if (!attempts.empty()) core_->Send(std::move(attempts), std::move(sink));
}

}  // namespace escapement::handler
