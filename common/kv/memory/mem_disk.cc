#include "common/kv/memory/mem_disk.h"

#include <algorithm>

#include "common/kv/layout.h"

namespace escapement::kv {

bool DiskState::Get(ColumnFamily cf, absl::string_view key, std::string& value) {
  const auto& family = disk_.families[static_cast<size_t>(cf)];
  auto it = family.find(key);
  if (it == family.end()) return false;
  value = it->second;
  return true;
}

void DiskState::ForEach(ColumnFamily cf, absl::string_view begin, absl::string_view end,
                        Visitor visit) {
  const auto& family = disk_.families[static_cast<size_t>(cf)];
  for (auto it = family.lower_bound(begin); it != family.end(); ++it) {
    if (!end.empty() && it->first >= end) return;
    if (!visit(it->first, it->second)) return;
  }
}

void DiskSink::Put(ColumnFamily cf, absl::string_view key, absl::string_view value) {
  disk_.families[static_cast<size_t>(cf)].insert_or_assign(std::string(key), std::string(value));
}

void DiskSink::Delete(ColumnFamily cf, absl::string_view key) {
  auto& family = disk_.families[static_cast<size_t>(cf)];
  if (const auto it = family.find(key); it != family.end()) family.erase(it);
}

void DiskSink::DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end) {
  auto& family = disk_.families[static_cast<size_t>(cf)];
  family.erase(family.lower_bound(begin), family.lower_bound(end));
}

ScanResult ScanDisk(const MemDisk& disk, const ScanRequest& request) {
  ScanResult result;
  const auto& family = disk.families[static_cast<size_t>(request.cf)];
  const size_t bytes_max = std::min(request.bytes_max, kScanBytesMax);
  size_t bytes = 0;
  auto full = [&] {
    return result.entries.size() >= request.limit || (bytes >= bytes_max && bytes > 0);
  };
  auto take = [&](const auto& entry) {
    result.entries.push_back({entry.first, request.keys_only ? std::string() : entry.second});
    bytes += entry.first.size() + result.entries.back().value.size();
  };
  auto scan = [&](std::string begin_key, const std::string& end_key) {
    if (request.cf == ColumnFamily::kMeta && begin_key < kMetaVisibleBegin)
      begin_key = std::string(kMetaVisibleBegin);
    if (!end_key.empty() && end_key <= begin_key) return;
    const auto begin = family.lower_bound(begin_key);
    const auto end = end_key.empty() ? family.end() : family.lower_bound(end_key);
    if (!request.reverse) {
      auto it = begin;
      for (; it != end && !full(); ++it) take(*it);
      result.more = it != end;
    } else {
      auto it = end;
      for (; it != begin && !full();) take(*--it);
      result.more = it != begin;
    }
  };
  scan(request.begin, request.end);
  for (const KeyRange& range : request.then) {
    result.more |= full();
    if (result.more) break;
    scan(range.begin, range.end);
  }
  return result;
}

}  // namespace escapement::kv
