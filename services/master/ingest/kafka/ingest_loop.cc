#include "services/master/ingest/kafka/ingest_loop.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/backoff/backoff.h"
#include "common/base/check.h"
#include "common/status/errors.h"
#include "escapement/v1/event_service.pb.h"
#include "services/master/ingest/kafka/message_decoder.h"
#include "services/master/ingest/refused_events.h"
#include "spdlog/spdlog.h"

namespace escapement::master {
namespace {

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
  auto consumer = KafkaConsumer::Open({.access = options_.access,
                                       .topics = options_.topics.Topics(),
                                       .group = options_.group,
                                       .session_timeout = options_.session_timeout},
                                      *this);
  if (!consumer.ok()) return consumer.status();
  consumer_ = *std::move(consumer);
  auto errors = ErrorTopic::Open({.access = options_.access,
                                  .topic = options_.error_topic,
                                  .group = options_.group,
                                  .wake = [this] { Wake(); }},
                                 runtime_, *this);
  if (!errors.ok()) return errors.status();
  errors_ = *std::move(errors);
  return absl::OkStatus();
}

void IngestLoop::Step() {
  TakeAnswers(absl::ZeroDuration());
  errors_->Serve();
  SendDue();
  Full() ? WaitForRoom() : Read();
  SendGathered();
  StoreOffsets();
  ShowGauges();
}

bool IngestLoop::Full() const {
  return in_flight_ >= options_.in_flight_max || in_flight_bytes_ >= options_.in_flight_bytes_max;
}

void IngestLoop::Read() {
  full_since_ = absl::InfiniteDuration();
  if (std::exchange(all_paused_, false)) {
    std::vector<KafkaPlace> free;
    for (const auto& [place, partition] : partitions_) {
      if (partition->holds == 0) free.push_back(place);
    }
    consumer_->Resume(free);
  }
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
  if (!all_paused_ && Now() - full_since_ >= kPauseAfter) {
    all_paused_ = true;
    std::vector<KafkaPlace> all;
    for (const auto& [place, partition] : partitions_) all.push_back(place);
    consumer_->Pause(all);
  }
  if (!all_paused_) return TakeAnswers(kAnswerStep);
  if (KafkaMessagePtr message = consumer_->Poll(kStepMax); message != nullptr)
    OnMessage(std::move(message));
}

std::shared_ptr<IngestPartition> IngestLoop::PartitionOf(const KafkaMessageView& view) {
  const auto found = partitions_.find({std::string(view.topic), view.partition});
  if (found == partitions_.end()) return nullptr;
  if (view.offset > found->second->tracker.last()) return found->second;
  // The topic was cut or made again: its offsets begin anew.
  auto fresh = std::make_shared<IngestPartition>();
  fresh->place = found->first;
  if (found->second->holds > 0) consumer_->Resume({found->first});
  found->second->revoked = true;
  found->second = fresh;
  return fresh;
}

void IngestLoop::OnMessage(KafkaMessagePtr message) {
  const KafkaMessageView view = ViewOf(*message);
  std::shared_ptr<IngestPartition> partition = PartitionOf(view);
  if (partition == nullptr) return;  // it was taken away
  partition->tracker.Add(view.offset);
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
  KafkaBatch full = std::move(found->second);
  gathering_.erase(found);
  Send(std::move(full));
}

// A batch that is not full waits while another of its tenant is under way: so batches grow with the
// load.
void IngestLoop::SendGathered() {
  for (auto next = gathering_.begin(); next != gathering_.end();) {
    const auto found = next++;
    if (const auto busy = under_way_of_.find(found->first);
        busy != under_way_of_.end() && busy->second > 0)
      continue;
    KafkaBatch batch = std::move(found->second);
    gathering_.erase(found);
    Send(std::move(batch));
  }
}

void IngestLoop::Send(KafkaBatch batch) {
  DropRevoked(batch);
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
  metrics_.events.Increment(response->created_count());
  metrics_.duplicates.Increment(response->existing_count());
  for (IngestItem& item : batch.items()) Finish(std::move(item));
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
      KafkaBatch half = batch.TakeHalf();
      Send(std::move(batch));
      return Send(std::move(half));
    }
    case RefusalKind::kRetryParts: {
      KafkaBatch half = batch.TakeHalf();
      half.tries = batch.tries;
      TryLater(std::move(half), refusal);
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
  for (IngestItem& item : batch.items()) Hold(item);
  if (Now() - trouble_logged_ >= kLogTroubleEvery) {
    trouble_logged_ = Now();
    spdlog::warn("kafka ingestion: {} messages of tenants/{} are tried again: {} {}", batch.size(),
                 batch.tenant(), absl::StatusCodeToString(refusal.code()), ErrorReason(refusal));
  }
  waiting_.push_back(std::move(batch));
}

void IngestLoop::RecordError(IngestItem item, const absl::Status& why) {
  // The text may quote the message, so it is not logged.
  spdlog::debug("kafka ingestion: the message at {}/{}/{} goes to the error topic: {}",
                item.partition->place.first, item.partition->place.second, item.message->offset,
                absl::StatusCodeToString(why.code()));
  ++item.partition->under_way;
  errors_->Send(std::move(item), why);
}

void IngestLoop::OnErrorRecorded(IngestItem item) {
  --item.partition->under_way;
  if (!item.partition->revoked) metrics_.errors.Increment();
  Finish(std::move(item));
}

void IngestLoop::OnErrorDelayed(IngestItem& item, const std::string& why) {
  Hold(item);
  OnTrouble(absl::StrCat("the error topic: ", why));
}

void IngestLoop::Finish(IngestItem item) {
  if (!item.partition->revoked) {
    item.partition->tracker.Finish(item.message->offset);
    finished_any_ = true;
  }
  Drop(std::move(item));
}

void IngestLoop::Drop(IngestItem item) {
  --in_flight_;
  in_flight_bytes_ -= BytesOf(*item.message);
  IngestPartition& partition = *item.partition;
  if (!item.holding || --partition.holds > 0) return;
  if (!partition.revoked && !all_paused_) consumer_->Resume({partition.place});
}

void IngestLoop::Hold(IngestItem& item) {
  if (std::exchange(item.holding, true)) return;
  IngestPartition& partition = *item.partition;
  if (partition.holds++ == 0 && !partition.revoked) consumer_->Pause({partition.place});
}

void IngestLoop::DropRevoked(KafkaBatch& batch) {
  batch.RemoveIf([](size_t, const IngestItem& item) { return item.partition->revoked; },
                 [this](size_t, IngestItem item) { Drop(std::move(item)); });
}

void IngestLoop::StoreOffsets() {
  if (!std::exchange(finished_any_, false)) return;
  for (const auto& [place, partition] : partitions_) {
    if (const auto next = partition->tracker.TakeCommittable(); next.has_value())
      consumer_->StoreOffset(place, *next);
  }
}

void IngestLoop::ShowGauges() {
  metrics_.in_flight.Set(static_cast<double>(in_flight_));
  metrics_.in_flight_bytes.Set(static_cast<double>(in_flight_bytes_));
  if (Now() - lag_shown_ < kShowLagEvery) return;
  lag_shown_ = Now();
  int64_t lag = 0;
  int paused = 0;
  for (const auto& [place, partition] : partitions_) {
    const std::optional<int64_t> end = consumer_->EndOf(place);
    const int64_t next = partition->tracker.next();
    if (end.has_value() && next >= 0) lag += std::max<int64_t>(*end - next, 0);
    paused += partition->holds > 0 ? 1 : 0;
  }
  metrics_.lag.Set(static_cast<double>(lag));
  metrics_.paused.Set(paused);
  metrics_.partitions.Set(static_cast<double>(partitions_.size()));
}

void IngestLoop::OnAssigned(const std::vector<KafkaPlace>& places) {
  for (const KafkaPlace& place : places) {
    auto partition = std::make_shared<IngestPartition>();
    partition->place = place;
    partitions_[place] = std::move(partition);
  }
  all_paused_ = false;
  full_since_ = absl::InfiniteDuration();
  spdlog::info("kafka ingestion: {} partitions are assigned", places.size());
}

void IngestLoop::OnRevoked(const std::vector<KafkaPlace>& places, bool lost) {
  std::vector<std::shared_ptr<IngestPartition>> going;
  for (const KafkaPlace& place : places) {
    if (const auto found = partitions_.find(place); found != partitions_.end())
      going.push_back(found->second);
  }
  const absl::Duration end = Now() + options_.revoke_patience;
  while (!lost && !finishing_ && AnyUnderWay(going) && Now() < end) {
    TakeAnswers(kAnswerStep);
    errors_->Serve();
  }
  StoreOffsets();
  for (const auto& partition : going) {
    partition->revoked = true;
    partitions_.erase(partition->place);
  }
  for (auto& [tenant, batch] : gathering_) DropRevoked(batch);
  for (KafkaBatch& batch : waiting_) DropRevoked(batch);
  spdlog::info("kafka ingestion: {} partitions are {}", places.size(), lost ? "lost" : "revoked");
}

bool IngestLoop::AnyUnderWay(
    const std::vector<std::shared_ptr<IngestPartition>>& partitions) const {
  return std::any_of(partitions.begin(), partitions.end(),
                     [](const auto& partition) { return partition->under_way > 0; });
}

void IngestLoop::OnTrouble(const std::string& text) {
  if (Now() - trouble_logged_ < kLogTroubleEvery) return;
  trouble_logged_ = Now();
  spdlog::warn("kafka ingestion: {}", text);
}

void IngestLoop::Finish() {
  finishing_ = true;
  const absl::Duration end = Now() + options_.stop_patience;
  std::vector<std::shared_ptr<IngestPartition>> all;
  for (const auto& [place, partition] : partitions_) all.push_back(partition);
  while (AnyUnderWay(all) && Now() < end) {
    TakeAnswers(kAnswerStep);
    errors_->Serve();
  }
  StoreOffsets();
  const absl::Duration close_end = Now() + options_.stop_patience;
  if (consumer_->Close([this, close_end] { return Now() >= close_end; })) {
    spdlog::info("kafka ingestion: has left the group");
  } else {
    spdlog::warn("kafka ingestion: the group does not answer; it waits for the session's timeout");
  }
  inbox_->Close();
  ShowGauges();
}

}  // namespace escapement::master
