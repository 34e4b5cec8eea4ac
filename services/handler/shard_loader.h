// ShardLoader: keeps the rows of one queue shard that are due within the horizon in its DueQueue,
// lane by lane, within bounds.
//
// For each lane everything below `loaded_to` has been seen. A watch over the whole shard is open
// before the first scan begins, so rows that are written meanwhile are told below `loaded_to` and
// found by a later scan above it. When the watch lags, all lanes are read again from their
// beginning; what is held or loaded is skipped.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_SHARD_LOADER_H_
#define SERVICES_HANDLER_SHARD_LOADER_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "services/handler/shard_state.h"

namespace escapement::handler {

class ShardLoader {
 public:
  explicit ShardLoader(std::weak_ptr<ShardState> state) : state_(std::move(state)) {}

  void Start();

  // Begins what scans there is need and room for.
  void Step(absl::Time now);

  // Reads everything again: rows have been let go of.
  void Rewind();

  // A row that this handler has just written: is it for the queue (or will a scan find it)?
  bool Covers(absl::string_view key) const;

 private:
  struct Lane {
    std::string loaded_to;
    std::string scanning_to;  // empty: no scan is under way
    std::string dropped;      // the least key dropped while one is; empty: none
  };
  void OpenWatch(kv::CommitSeq from);
  void OnBatch(ShardState& state, const kv::WatchBatch& batch);
  void AddRow(ShardState& state, std::string key, std::string value, kv::CommitSeq seq);
  void DropLatest(ShardState& state, uint8_t lane);
  void ReadOmitted(ShardState& state, std::vector<kv::Key> keys);
  void ScanLane(ShardState& state, uint8_t lane, std::string to);
  void OnScanned(ShardState& state, uint8_t lane, const std::string& to,
                 absl::StatusOr<kv::ScanResult> result);

  std::weak_ptr<ShardState> state_;
  std::unique_ptr<kv::Watch> watch_;
  bool watching_ = false;
  uint64_t watch_generation_ = 0;
  uint64_t scan_generation_ = 0;
  absl::Time quiet_until_ = absl::InfinitePast();  // there is nothing to read before
  std::array<Lane, kLaneCount> lanes_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SHARD_LOADER_H_
