#include "services/handler/delivery/kafka/producer_table.h"

#include <utility>

#include "common/base/check.h"

namespace escapement::handler {

ProducerTable::Entry* ProducerTable::Find(const std::string& key) {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second;
}

ProducerTable::Entry* ProducerTable::FindId(uint64_t id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.get();
}

ProducerTable::Entry* ProducerTable::Open(
    const std::string& key, KafkaProducer::Options options, MonotonicMicros now,
    std::function<void(uint64_t id, absl::Status status)> opened) {
  CHECK(Find(key) == nullptr);
  if (!MakeRoom()) return nullptr;
  const uint64_t id = ++last_id_;
  options.id = id;
  auto entry = std::make_unique<Entry>();
  entry->key = key;
  entry->producer = std::make_unique<KafkaProducer>(std::move(options));
  entry->used = now;
  opening_.CountRunning();
  opening_.Run([producer = entry->producer.get(), id, opened = std::move(opened)] {
    opened(id, producer->Open());
  });
  Entry* added = entry.get();
  by_key_[key] = added;
  by_id_[id] = std::move(entry);
  return added;
}

bool ProducerTable::MakeRoom() {
  if (by_id_.size() < options_.producers_max) return true;
  if (closing_.CountRunning() >= options_.closing_max) return false;
  Entry* oldest = nullptr;
  for (const auto& [id, entry] : by_id_) {
    if (IsIdle(*entry) && (oldest == nullptr || entry->used < oldest->used)) oldest = entry.get();
  }
  if (oldest == nullptr) return false;
  Close(oldest);
  return true;
}

void ProducerTable::Retire(Entry* entry) {
  const auto found = by_key_.find(entry->key);
  if (found != by_key_.end() && found->second == entry) by_key_.erase(found);
  entry->state = State::kRetired;
}

void ProducerTable::Break(Entry* entry, absl::Status why, MonotonicMicros now) {
  entry->state = State::kBroken;
  entry->why = std::move(why);
  entry->broken_until = now + absl::ToInt64Microseconds(options_.broken_for);
}

void ProducerTable::CloseUnused(MonotonicMicros now) {
  opening_.CountRunning();
  size_t closing = closing_.CountRunning();
  std::vector<Entry*> unused;
  for (const auto& [id, entry] : by_id_) {
    if (entry->state == State::kBroken && entry->broken_until <= now) Retire(entry.get());
    const bool idle_for_long =
        entry->used + absl::ToInt64Microseconds(options_.idle_timeout) <= now;
    if (IsIdle(*entry) && (entry->state == State::kRetired || idle_for_long))
      unused.push_back(entry.get());
  }
  for (Entry* entry : unused) {
    if (closing++ >= options_.closing_max) return;
    Close(entry);
  }
}

void ProducerTable::Close(Entry* entry) {
  Retire(entry);
  std::shared_ptr<KafkaProducer> producer = std::move(entry->producer);
  by_id_.erase(producer->id());
  closing_.Run([producer = std::move(producer)]() mutable { producer.reset(); });
}

void ProducerTable::ForEach(const std::function<void(Entry*)>& visit) {
  for (const auto& [id, entry] : by_id_) visit(entry.get());
}

void ProducerTable::CloseAll() {
  std::vector<Entry*> all;
  for (const auto& [id, entry] : by_id_) all.push_back(entry.get());
  for (Entry* entry : all) Close(entry);
  closing_.JoinAll();
}

}  // namespace escapement::handler
