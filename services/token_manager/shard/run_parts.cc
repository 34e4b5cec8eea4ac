#include "services/token_manager/shard/run_parts.h"

namespace escapement::token_manager {

storage::v1::RunPartRecord* RunParts::Find(const std::string& key) {
  const auto found = parts_.find(key);
  if (found != parts_.end() && found->second.known) return &found->second.record;
  wanted_.insert(key);
  return nullptr;
}

void RunParts::Pin(const std::string& key) {
  Part& part = parts_[key];
  if (part.pins++ == 0 && part.known) unpinned_.erase(part.unpinned);
  if (!part.known) wanted_.insert(key);
}

void RunParts::Unpin(const std::string& key) {
  const auto found = parts_.find(key);
  if (found == parts_.end() || found->second.pins == 0 || --found->second.pins > 0) return;
  if (!found->second.known) {
    parts_.erase(found);
    return;
  }
  found->second.unpinned = unpinned_.insert(unpinned_.end(), key);
}

void RunParts::Put(const std::string& key, const std::optional<std::string>& value) {
  Part& part = parts_[key];
  if (part.known) return;
  part.known = true;
  // One that cannot be read counts as none: the run is off by what it said, everything else goes
  // on.
  if (value.has_value() && !part.record.ParseFromString(*value)) part.record.Clear();
  if (part.pins == 0) part.unpinned = unpinned_.insert(unpinned_.end(), key);
}

void RunParts::Trim() {
  while (unpinned_.size() > unpinned_max_) {
    parts_.erase(unpinned_.front());
    unpinned_.pop_front();
  }
}

}  // namespace escapement::token_manager
