#include "services/token_manager/shard/pending_reads.h"

#include <algorithm>

namespace escapement::token_manager {
namespace {

// A watch that tells nothing for longer than so many deletions has nothing old to tell.
constexpr size_t kDeletedEarlyMax = 100'000;

}  // namespace

storage::v1::RunPartRecord* RunParts::Find(const std::string& key) {
  const auto found = parts_.find(key);
  if (found != parts_.end() && found->second.record.has_value()) return &*found->second.record;
  wanted_.insert(key);
  return nullptr;
}

void RunParts::Pin(const std::string& key) {
  Part& part = parts_[key];
  if (part.pins++ == 0 && part.record.has_value()) unpinned_.erase(part.unpinned);
  if (!part.record.has_value()) wanted_.insert(key);
}

void RunParts::Unpin(const std::string& key) {
  const auto found = parts_.find(key);
  if (found == parts_.end() || found->second.pins == 0 || --found->second.pins > 0) return;
  if (found->second.record.has_value()) {
    found->second.unpinned = unpinned_.insert(unpinned_.end(), key);
  } else {
    parts_.erase(found);
  }
}

void RunParts::Put(const std::string& key, const std::optional<std::string>& value) {
  Part& part = parts_[key];
  if (part.record.has_value()) return;
  part.record.emplace();
  // One that cannot be read counts as none: the run is off by what it said, everything else goes
  // on.
  if (value.has_value() && !part.record->ParseFromString(*value)) part.record->Clear();
  if (part.pins == 0) part.unpinned = unpinned_.insert(unpinned_.end(), key);
}

void RunParts::Trim() {
  while (unpinned_.size() > unpinned_max_) {
    parts_.erase(unpinned_.front());
    unpinned_.pop_front();
  }
}

RowReads::Read RowReads::Begin(size_t max) {
  Read read{.number = ++reads_, .keys = TakeFirst(wanted_, max)};
  for (const std::string& key : read.keys) reading_[key] = read.number;
  return read;
}

bool RowReads::End(const std::string& key, uint64_t number) {
  const auto reading = reading_.find(key);
  if (reading == reading_.end() || reading->second != number) return false;
  reading_.erase(reading);
  return true;
}

void RowReads::NoteDeleted(const std::string& key, kv::CommitSeq read_seq) {
  if (!reading_.empty()) reading_.erase(key);
  if (read_seq <= watched_to_) return;
  deleted_early_keys_[key] = read_seq;
  deleted_early_.push_back({read_seq, key});
  if (deleted_early_.size() > kDeletedEarlyMax) ForgetDeleted();
}

void RowReads::WatchedTo(kv::CommitSeq seq) {
  watched_to_ = std::max(watched_to_, seq);
  while (!deleted_early_.empty() && deleted_early_.front().first <= watched_to_) ForgetDeleted();
}

void RowReads::ForgetDeleted() {
  const auto& [seq, key] = deleted_early_.front();
  const auto found = deleted_early_keys_.find(key);
  if (found != deleted_early_keys_.end() && found->second == seq) deleted_early_keys_.erase(found);
  deleted_early_.pop_front();
}

}  // namespace escapement::token_manager
