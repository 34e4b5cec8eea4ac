#include "services/master/ingest/kafka/ingest_loop.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/backoff/backoff.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/status/errors.h"
#include "escapement/v1/event_service.pb.h"
#include "services/master/base/errors.h"
#include "services/master/ingest/kafka/message_decoder.h"
#include "services/master/ingest/ndjson_batch.h"

namespace escapement::master {

namespace {

std::string NameOf(const std::string& name) { return "escapement_master_kafka_" + name; }

Counter& Count(Metrics& metrics, const std::string& name, const std::string& help) {
  return *metrics.GetCounter(NameOf(name) + "_total", help);
}

Gauge& Show(Metrics& metrics, const std::string& name, const std::string& help) {
  return *metrics.GetGauge(NameOf(name), help);
}

}  // namespace

KafkaIngestMetrics::KafkaIngestMetrics(Metrics& metrics)
    : messages(Count(metrics, "messages", "Messages read from Kafka")),
      events(Count(metrics, "events", "Events from Kafka made durable")),
      duplicates(Count(metrics, "duplicates", "Messages whose event existed already")),
      errors(Count(metrics, "errors", "Messages that the error topic has acknowledged")),
      retries(Count(metrics, "retries", "Batches of events from Kafka that are tried again")),
      batch_seconds(*metrics.GetHistogram(NameOf("batch_seconds"),
                                          "Time until the store's answer to a batch from Kafka",
                                          LatencyBuckets())),
      partitions(Show(metrics, "partitions", "Partitions that this process reads")),
      paused(Show(metrics, "paused_partitions", "Partitions that wait to be tried again")),
      lag(Show(metrics, "lag_messages", "Messages of its partitions that have no answer")),
      in_flight(Show(metrics, "in_flight_messages", "Messages from Kafka in memory")),
      in_flight_bytes(Show(metrics, "in_flight_bytes", "Bytes of messages from Kafka in memory")) {}

namespace {

constexpr char kComponent[] = "master.kafka_ingest";
constexpr absl::Duration kStepMax = absl::Milliseconds(100);
constexpr absl::Duration kBackoffMin = absl::Milliseconds(100);
// Without room for so long, the partitions are paused, and the loop serves the group.
constexpr absl::Duration kPauseAfter = absl::Milliseconds(500);
constexpr absl::Duration kShowLagEvery = absl::Seconds(1);
constexpr absl::Duration kLogTroubleEvery = absl::Seconds(10);
constexpr absl::Duration kAnswerStep = absl::Milliseconds(10);

MethodAccess IngestMethod() {
  const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
      "escapement.v1.EventService");
  CHECK(service != nullptr);
  auto access = MethodAccess::Of(*service->FindMethodByName("Ingest"));
  CHECK(access.ok()) << access.status().ToString();
  return *std::move(access);
}

}  // namespace

IngestLoop::IngestLoop(const KafkaIngestOptions& options, EventApi& events, CallGate& gate,
                       Runtime& runtime, Metrics& metrics)
    : options_(options),
      events_(events),
      gate_(gate),
      runtime_(runtime),
      metrics_(metrics),
      method_(IngestMethod()),
      caller_(std::make_shared<Caller>(
          Caller{.principal = absl::StrCat("kafka/", options.group), .role = v1::Access::EDITOR})),
      inbox_(std::make_shared<AnswerInbox>([this] { Wake(); })) {}

IngestLoop::~IngestLoop() { inbox_->Close(); }

absl::Status IngestLoop::Open() {
  ASSIGN_OR_RETURN(auto consumer, KafkaConsumer::Open({.access = options_.access,
                                                       .topics = options_.topics.Topics(),
                                                       .group = options_.group,
                                                       .session_timeout = options_.session_timeout},
                                                      *this));
  consumer_ = std::move(consumer);
  partitions_ = std::make_unique<PartitionSet>(*consumer_);
  ASSIGN_OR_RETURN(auto errors, ErrorTopic::Open({.access = options_.access,
                                                  .topic = options_.error_topic,
                                                  .group = options_.group,
                                                  .wake = [this] { Wake(); }},
                                                 runtime_, *this));
  errors_ = std::move(errors);
  return absl::OkStatus();
}

void IngestLoop::Step() {
  TakeAnswers(absl::ZeroDuration());
  errors_->Serve();
  SendDue();
  partitions_->ResumeRewound(Now());
  Full() ? WaitForRoom() : Read();
  SendGathered();
  partitions_->StoreOffsets();
  ShowGauges();
}

bool IngestLoop::Full() const {
  return in_flight_ >= options_.in_flight_max || in_flight_bytes_ >= options_.in_flight_bytes_max;
}

void IngestLoop::Read() {
  full_since_ = absl::InfiniteDuration();
  if (partitions_->all_paused()) partitions_->ResumeAll();
  absl::Duration due = errors_->NextDue();
  for (const KafkaBatch& batch : waiting_) due = std::min(due, batch.retry_at);
  absl::Duration patience = std::clamp(due - Now(), absl::ZeroDuration(), kStepMax);
  for (size_t read = 0; read < options_.batch_max && !Full(); ++read) {
    KafkaMessagePtr message = consumer_->Poll(std::exchange(patience, absl::ZeroDuration()));
    if (message == nullptr) return;
    OnMessage(std::move(message));
  }
}

// The group must be served even if the store takes minutes: else it takes the partitions away.
void IngestLoop::WaitForRoom() {
  if (full_since_ == absl::InfiniteDuration()) full_since_ = Now();
  if (!partitions_->all_paused()) {
    if (Now() - full_since_ < kPauseAfter) return TakeAnswers(kAnswerStep);
    partitions_->PauseAll();
  }
  if (KafkaMessagePtr message = consumer_->Poll(kStepMax); message != nullptr)
    OnMessage(std::move(message));
}

void IngestLoop::OnMessage(KafkaMessagePtr message) {
  const KafkaMessageView view = ViewOf(*message);
  PartitionSet::Pointer partition = partitions_->Take(view);
  if (partition == nullptr) return;
  ++in_flight_;
  in_flight_bytes_ += BytesOf(*message);
  metrics_.messages.Increment();
  absl::StatusOr<DecodedMessage> decoded = DecodeMessage(view, options_.topics);
  IngestItem item = {.partition = std::move(partition), .message = std::move(message)};
  if (!decoded.ok()) return RecordError(std::move(item), decoded.status());
  const auto found = gathering_.try_emplace(decoded->tenant, decoded->tenant).first;
  found->second.Add(std::move(item), std::move(decoded->event));
  if (found->second.size() < options_.batch_max && found->second.bytes() < options_.batch_bytes_max)
    return;
  full_[decoded->tenant].push_back(std::move(found->second));
  gathering_.erase(found);
}

// A batch that is not full waits while another of its tenant is under way: so batches grow with the
// load.
void IngestLoop::SendGathered() {
  for (auto next = full_.begin(); next != full_.end();) {
    std::deque<KafkaBatch>& batches = next->second;
    while (!batches.empty() && MayGo(batches.front())) {
      KafkaBatch batch = std::move(batches.front());
      batches.pop_front();
      Send(std::move(batch));
    }
    next = batches.empty() ? full_.erase(next) : std::next(next);
  }
  for (auto next = gathering_.begin(); next != gathering_.end();) {
    const auto found = next++;
    if (under_way_of_.contains(found->first) || full_.contains(found->first) ||
        !MayGo(found->second))
      continue;
    KafkaBatch batch = std::move(found->second);
    gathering_.erase(found);
    Send(std::move(batch));
  }
}

bool IngestLoop::MayGo(const KafkaBatch& batch) const {
  const auto in_the_way = [&](const KafkaBatch& other) {
    return other.tenant() == batch.tenant() && (batch.goes_alone() || other.goes_alone());
  };
  return absl::c_none_of(waiting_, in_the_way) &&
         absl::c_none_of(under_way_, [&](const auto& each) { return in_the_way(each.second); });
}

void IngestLoop::Send(KafkaBatch batch) {
  DropGone(batch);
  if (batch.size() == 0) return;
  const uint64_t id = ++last_batch_;
  batch.sent = Now();
  for (const IngestItem& item : batch.items()) ++item.partition->under_way;
  ++under_way_of_[batch.tenant()];
  const std::shared_ptr<const v1::IngestRequest> request = batch.request();
  under_way_.emplace(id, std::move(batch));
  if (absl::Status refused = gate_.CheckRequest(method_, *caller_, request->parent(), *request);
      !refused.ok()) {
    inbox_->Add({.batch = id, .response = std::move(refused)});
    return;
  }
  events_.IngestBatch(request, {},
                      Done<v1::IngestResponse>(
                          [inbox = inbox_, id](absl::StatusOr<v1::IngestResponse> response) {
                            inbox->Add({.batch = id, .response = std::move(response)});
                          },
                          caller_));
}

void IngestLoop::SendDue() {
  const absl::Duration now = Now();
  std::vector<KafkaBatch> due;
  for (size_t i = 0; i < waiting_.size();) {
    if (waiting_[i].retry_at > now) {
      ++i;
      continue;
    }
    due.push_back(std::move(waiting_[i]));
    waiting_[i] = std::move(waiting_.back());
    waiting_.pop_back();
  }
  for (KafkaBatch& batch : due) Send(std::move(batch));
}

void IngestLoop::TakeAnswers(absl::Duration patience) {
  for (AnswerInbox::Answer& answer : inbox_->Take(patience)) {
    const auto found = under_way_.find(answer.batch);
    CHECK(found != under_way_.end());
    KafkaBatch batch = std::move(found->second);
    under_way_.erase(found);
    for (const IngestItem& item : batch.items()) --item.partition->under_way;
    const auto busy = under_way_of_.find(batch.tenant());
    if (--busy->second == 0) under_way_of_.erase(busy);
    metrics_.batch_seconds.Observe(absl::ToDoubleSeconds(Now() - batch.sent));
    OnAnswer(std::move(batch), answer.response);
  }
}

void IngestLoop::OnAnswer(KafkaBatch batch, const absl::StatusOr<v1::IngestResponse>& response) {
  if (!response.ok()) return OnRefusal(std::move(batch), response.status());
  metrics_.events.Increment(response->created_count() + response->replaced_positions_size() +
                            response->ended_count());
  metrics_.duplicates.Increment(response->existing_count());
  RecordRefused(batch, *response);
  for (IngestItem& item : batch.items()) Finish(std::move(item));
}

void IngestLoop::RecordRefused(KafkaBatch& batch, const v1::IngestResponse& response) {
  std::map<size_t, absl::Status> refused;
  for (const int position : response.cancelled_positions()) {
    const std::string& id = batch.request()->events(position).event_id();
    const auto place = static_cast<size_t>(position);
    // A message whose id is made of its place was read again: no other message has this id.
    if (id == EventIdOf(ViewOf(*batch.items()[place].message))) continue;
    refused.emplace(place,
                    EventIdCancelled(absl::StrCat(batch.request()->parent(), "/events/", id)));
  }
  for (const v1::IgnoredEvent& ignored : response.ignored()) {
    if (ignored.code() != 0) refused.emplace(ignored.position(), ErrorOf(ignored));
  }
  if (refused.empty()) return;
  KafkaBatch again(batch.tenant());
  absl::Status why;
  batch.RemoveIf([&](size_t position, const IngestItem&) { return refused.count(position) > 0; },
                 [&](size_t position, IngestItem item) {
                   const absl::Status& refusal = refused.at(position);
                   if (!absl::IsAborted(refusal) && !absl::IsResourceExhausted(refusal))
                     return RecordError(std::move(item), refusal);
                   why = refusal;
                   again.Add(std::move(item), batch.request()->events(static_cast<int>(position)));
                 });
  again.tries = batch.tries;
  if (again.size() > 0) TryLater(std::move(again), why);
}

void IngestLoop::OnRefusal(KafkaBatch batch, const absl::Status& refusal) {
  const auto refused = RefusedEvents(FieldViolationsOf(refusal), batch.size());
  if (absl::IsInvalidArgument(refusal) && !refused.empty()) {
    batch.RemoveIf([&](size_t position, const IngestItem&) { return refused.count(position) > 0; },
                   [&](size_t position, IngestItem item) {
                     RecordError(std::move(item), refused.at(position));
                   });
    return Send(std::move(batch));
  }
  switch (KindOfRefusal(refusal, batch.size())) {
    case RefusalKind::kFinal:
      gate_.OnAnswered(method_, *caller_, batch.request()->parent(), "", refusal);
      for (IngestItem& item : batch.items()) RecordError(std::move(item), refusal);
      return;
    case RefusalKind::kSplit: {
      full_[batch.tenant()].push_front(batch.TakeHalf());
      return Send(std::move(batch));
    }
    case RefusalKind::kRetryParts: {
      KafkaBatch half = batch.TakeHalf();
      half.tries = batch.tries;
      full_[batch.tenant()].push_front(std::move(half));
      return TryLater(std::move(batch), refusal);
    }
    case RefusalKind::kRetry:
      return TryLater(std::move(batch), refusal);
  }
}

void IngestLoop::TryLater(KafkaBatch batch, const absl::Status& refusal) {
  metrics_.retries.Increment();
  const BackoffPolicy backoff = {.min = kBackoffMin, .max = options_.backoff_max};
  const absl::Duration own = FullJitterBackoff(backoff, ++batch.tries, runtime_.random().Next());
  const absl::Duration asked = RetryDelayOf(refusal).value_or(absl::ZeroDuration());
  batch.retry_at = Now() + std::max(own, std::min(asked, options_.backoff_max));
  if (!HasRoomToWait(batch)) {
    for (const IngestItem& item : batch.items()) {
      if (!item.partition->gone) partitions_->Rewind(*item.partition, Now() + options_.backoff_max);
    }
    DropGone(batch);
    return DropGoneEverywhere();
  }
  for (IngestItem& item : batch.items()) partitions_->Hold(item);
  if (Now() - trouble_logged_ >= kLogTroubleEvery) {
    trouble_logged_ = Now();
    Log(LogLevel::kWarning, kComponent, "messages wait to be tried again",
        {{"tenant", batch.tenant()},
         {"messages", batch.size()},
         {"code", absl::StatusCodeToString(refusal.code())},
         {"reason", ErrorReason(refusal)}});
  }
  waiting_.push_back(std::move(batch));
}

bool IngestLoop::HasRoomToWait(const KafkaBatch& batch) const {
  size_t messages = batch.size();
  size_t bytes = batch.bytes();
  for (const KafkaBatch& waiting : waiting_) {
    messages += waiting.size();
    bytes += waiting.bytes();
  }
  return messages <= options_.in_flight_max / 2 && bytes <= options_.in_flight_bytes_max / 2;
}

void IngestLoop::RecordError(IngestItem item, const absl::Status& why) {
  ++item.partition->under_way;
  errors_->Send(std::move(item), why);
}

void IngestLoop::OnErrorRecorded(IngestItem item) {
  --item.partition->under_way;
  if (!item.partition->gone) metrics_.errors.Increment();
  Finish(std::move(item));
}

void IngestLoop::OnErrorDelayed(IngestItem& item, const std::string& why) {
  partitions_->Hold(item);
  OnTrouble(absl::StrCat("the error topic: ", why));
}

void IngestLoop::Finish(IngestItem item) {
  partitions_->Finish(item);
  Drop(std::move(item));
}

void IngestLoop::Drop(IngestItem item) {
  --in_flight_;
  in_flight_bytes_ -= BytesOf(*item.message);
  partitions_->Release(item);
}

void IngestLoop::DropGone(KafkaBatch& batch) {
  batch.RemoveIf([](size_t, const IngestItem& item) { return item.partition->gone; },
                 [this](size_t, IngestItem item) { Drop(std::move(item)); });
}

void IngestLoop::DropGoneEverywhere() {
  for (auto& [tenant, batch] : gathering_) DropGone(batch);
  for (auto& [tenant, batches] : full_) {
    for (KafkaBatch& batch : batches) DropGone(batch);
  }
  for (KafkaBatch& batch : waiting_) DropGone(batch);
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(),
                                [](const KafkaBatch& batch) { return batch.size() == 0; }),
                 waiting_.end());
}

void IngestLoop::ShowGauges() {
  metrics_.in_flight.Set(static_cast<double>(in_flight_));
  metrics_.in_flight_bytes.Set(static_cast<double>(in_flight_bytes_));
  if (Now() - lag_shown_ < kShowLagEvery) return;
  lag_shown_ = Now();
  metrics_.lag.Set(static_cast<double>(partitions_->Lag()));
  metrics_.paused.Set(static_cast<double>(partitions_->CountPaused()));
  metrics_.partitions.Set(static_cast<double>(partitions_->size()));
}

void IngestLoop::OnAssigned(const std::vector<KafkaPlace>& places) {
  partitions_->Assign(places);
  full_since_ = absl::InfiniteDuration();
  Log(LogLevel::kInfo, kComponent, "partitions are assigned", {{"count", places.size()}});
}

void IngestLoop::OnRevoked(const std::vector<KafkaPlace>& places, bool lost) {
  const std::vector<PartitionSet::Pointer> going = partitions_->Find(places);
  if (!lost && !finishing_) AwaitAnswers(going, Now() + options_.revoke_patience);
  partitions_->StoreOffsets();
  // Some may have been rewound while we waited.
  partitions_->Remove(partitions_->Find(places));
  DropGoneEverywhere();
  Log(LogLevel::kInfo, kComponent, lost ? "partitions are lost" : "partitions are revoked",
      {{"count", places.size()}});
}

void IngestLoop::AwaitAnswers(const std::vector<PartitionSet::Pointer>& partitions,
                              absl::Duration end) {
  const auto waits = [](const PartitionSet::Pointer& one) { return one->under_way > 0; };
  while (std::any_of(partitions.begin(), partitions.end(), waits) && Now() < end) {
    TakeAnswers(kAnswerStep);
    errors_->Serve();
  }
}

void IngestLoop::OnTrouble(const std::string& text) {
  if (Now() - trouble_logged_ < kLogTroubleEvery) return;
  trouble_logged_ = Now();
  Log(LogLevel::kWarning, kComponent, "the brokers cannot be used", {{"error", text}});
}

void IngestLoop::Finish() {
  finishing_ = true;
  AwaitAnswers(partitions_->All(), Now() + options_.stop_patience);
  partitions_->StoreOffsets();
  const absl::Duration close_end = Now() + options_.stop_patience;
  if (consumer_->Close([this, close_end] { return Now() >= close_end; })) {
    Log(LogLevel::kInfo, kComponent, "has left the group");
  } else {
    Log(LogLevel::kWarning, kComponent, "the group does not answer: its session must time out");
  }
  inbox_->Close();
  ShowGauges();
}

}  // namespace escapement::master
