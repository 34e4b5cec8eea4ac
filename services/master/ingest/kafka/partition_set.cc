#include "services/master/ingest/kafka/partition_set.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace escapement::master {
namespace {

// Tries to get back to a message that retention may have removed.
constexpr int kSeeksMax = 5;

}  // namespace

void PartitionSet::Assign(const std::vector<KafkaPlace>& places) {
  for (const KafkaPlace& place : places) {
    auto partition = std::make_shared<IngestPartition>();
    partition->place = place;
    partitions_[place] = std::move(partition);
  }
  all_paused_ = false;
}

std::vector<PartitionSet::Pointer> PartitionSet::Find(const std::vector<KafkaPlace>& places) const {
  std::vector<Pointer> found;
  for (const KafkaPlace& place : places) {
    if (const auto it = partitions_.find(place); it != partitions_.end())
      found.push_back(it->second);
  }
  return found;
}

std::vector<PartitionSet::Pointer> PartitionSet::All() const {
  std::vector<Pointer> all;
  for (const auto& [place, partition] : partitions_) all.push_back(partition);
  return all;
}

void PartitionSet::Remove(const std::vector<Pointer>& partitions) {
  for (const Pointer& partition : partitions) {
    partition->gone = true;
    partitions_.erase(partition->place);
  }
}

PartitionSet::Pointer PartitionSet::Take(const KafkaMessageView& message) {
  const auto found = partitions_.find({std::string(message.topic), message.partition});
  if (found == partitions_.end()) return nullptr;
  Pointer& partition = found->second;
  if (message.offset <= partition->tracker.last()) {
    // The topic was cut or made again: its offsets begin at the start.
    auto fresh = std::make_shared<IngestPartition>();
    fresh->place = found->first;
    if (partition->holds > 0 && !all_paused_) consumer_.Resume({found->first});
    partition->gone = true;
    partition = std::move(fresh);
  } else if (!Continues(*partition, message.offset)) {
    return nullptr;
  }
  partition->tracker.Add(message.offset);
  return partition;
}

void PartitionSet::Hold(IngestItem& item) {
  if (std::exchange(item.holding, true)) return;
  IngestPartition& partition = *item.partition;
  if (partition.holds++ == 0 && !partition.gone) consumer_.Pause({partition.place});
}

void PartitionSet::Release(const IngestItem& item) {
  IngestPartition& partition = *item.partition;
  if (!item.holding || --partition.holds > 0) return;
  if (!partition.gone && !all_paused_) consumer_.Resume({partition.place});
}

void PartitionSet::Finish(const IngestItem& item) {
  if (item.partition->gone) return;
  item.partition->tracker.Finish(item.message->offset);
  finished_any_ = true;
}

// Paused first: librdkafka's pause keeps the place of the last message, which a seek then replaces.
void PartitionSet::Rewind(IngestPartition& partition, absl::Duration resume_at) {
  StoreOffsets();
  const auto found = partitions_.find(partition.place);
  auto fresh = std::make_shared<IngestPartition>();
  fresh->place = partition.place;
  fresh->resume_at = resume_at;
  fresh->rewound_to = partition.tracker.first();
  fresh->read_to = partition.tracker.last();
  consumer_.Pause({partition.place});
  consumer_.Seek(partition.place, fresh->rewound_to);
  partition.gone = true;
  found->second = std::move(fresh);
}

void PartitionSet::ResumeRewound(absl::Duration now) {
  for (const auto& [place, partition] : partitions_) {
    if (partition->resume_at > now) continue;
    partition->resume_at = absl::InfiniteDuration();
    if (!all_paused_) consumer_.Resume({place});
  }
}

bool PartitionSet::Continues(IngestPartition& partition, int64_t offset) {
  const bool begins = partition.read_to >= 0 && partition.tracker.last() < 0;
  if (!begins || offset <= partition.read_to || ++partition.seeks > kSeeksMax) return true;
  consumer_.Pause({partition.place});
  consumer_.Seek(partition.place, partition.rewound_to);
  consumer_.Resume({partition.place});
  return false;
}

void PartitionSet::PauseAll() {
  all_paused_ = true;
  std::vector<KafkaPlace> all;
  for (const auto& [place, partition] : partitions_) all.push_back(place);
  consumer_.Pause(all);
}

void PartitionSet::ResumeAll() {
  all_paused_ = false;
  std::vector<KafkaPlace> free;
  for (const auto& [place, partition] : partitions_) {
    if (!IsPaused(*partition)) free.push_back(place);
  }
  consumer_.Resume(free);
}

void PartitionSet::StoreOffsets() {
  if (!std::exchange(finished_any_, false)) return;
  for (const auto& [place, partition] : partitions_) {
    if (const auto next = partition->tracker.TakeCommittable(); next.has_value())
      consumer_.StoreOffset(place, *next);
  }
}

int64_t PartitionSet::Lag() const {
  int64_t lag = 0;
  for (const auto& [place, partition] : partitions_) {
    const std::optional<int64_t> end = consumer_.EndOf(place);
    const int64_t next =
        partition->tracker.next() >= 0 ? partition->tracker.next() : partition->rewound_to;
    if (end.has_value() && next >= 0) lag += std::max<int64_t>(*end - next, 0);
  }
  return lag;
}

size_t PartitionSet::CountPaused() const {
  return static_cast<size_t>(
      std::count_if(partitions_.begin(), partitions_.end(),
                    [](const auto& entry) { return IsPaused(*entry.second); }));
}

bool PartitionSet::IsPaused(const IngestPartition& partition) {
  return partition.holds > 0 || partition.resume_at != absl::InfiniteDuration();
}

}  // namespace escapement::master
