// ShardLoader: keeps the rows of one queue shard that are due within the horizon in its DueQueue,
// lane by lane, within bounds.
//
// For each lane everything below `loaded_to` has been seen. A watch of all lanes, each from its
// beginning to what is read or being read of it, is open before the first scan begins, so rows that
// are written meanwhile are told below `loaded_to` and found by a later scan above it: what is due
// later than the horizon is not told at all. When the watch lags, all lanes are read again from
// their beginning; what is held or loaded is skipped.
//
// An on-time lane that has much to do and does it late, or that is so long that what is being read
// of it is late, is read in two segments (due_queue.h): what is overdue goes on being read up to
// the lane's mark, and everything from the mark on is read at once, so that what falls due now does
// not wait until the backlog has drained. The mark is no later than it must be: what fell due
// together with a spike, or soon after it, would otherwise wait with it. When even the part from
// the mark on is late, its overdue rows are let go of and the mark moves up. The lane is one again
// when the backlog has been read and taken.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_INTAKE_SHARD_LOADER_H_
#define SERVICES_HANDLER_INTAKE_SHARD_LOADER_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "services/handler/shard_state.h"

namespace escapement::handler {

class ShardLoader {
 public:
  explicit ShardLoader(ShardState& state) : state_(state) {}

  void Start();

  // Begins what scans there is need and room for.
  void Step(absl::Time now);

  // Reads everything again: rows have been let go of.
  void Rewind();

  // Whether a row of an on-time lane has been due for so long that a lane that cannot keep up lets
  // what is due later go first.
  bool Overdue(absl::string_view key, absl::Time now) const;
  // Its lane cannot keep up: such a row, which was held, and all of the same time or before it are
  // overdue.
  void Demote(QueuedRow row);

  // A row that has just been written: is it for the queue (or will a scan find it)?
  bool Takes(absl::string_view key);

 private:
  struct Segment {
    std::string loaded_to = {};
    std::string scanning_to = {};  // empty: no scan is under way
    std::string dropped = {};      // the least key dropped while one is; empty: none
    bool more = false;             // behind what was read last there is more of it
    bool quiet = false;            // there was nothing: it is read as far as quiet_horizon
  };
  void OpenWatch(kv::CommitSeq from);
  // The watch is to tell of the lane's rows before `end` and of none from there on.
  void TellUpTo(uint8_t lane, std::string end);
  // Nothing of the segment is being read or about to be: of what is behind it nothing is told.
  void TellOfLoaded(uint8_t segment);
  void OnBatch(const kv::WatchBatch& batch);
  void AddRow(absl::string_view key, absl::string_view value, kv::CommitSeq seq);
  void DropLatest(uint8_t segment);
  // The rows of the segment from `key` on are to be read again.
  void ReadFrom(uint8_t segment, std::string key);
  void ReadOmitted(std::vector<kv::Key> keys);
  // Until where the segment is to be loaded; the same once three quarters of the horizon are.
  std::string LoadTo(uint8_t segment, absl::Time now) const;
  // The segment holds what it may.
  bool Full(uint8_t segment) const;
  // Before it the lane is overdue: it cannot keep up. Empty, or no later than the lane's mark: it
  // can.
  std::string MarkOf(uint8_t lane, absl::Time now) const;
  // What is before `mark` is overdue, and everything from there on is loaded beside it.
  void FallBehind(uint8_t lane, std::string mark);
  void ScanSegment(uint8_t segment, std::string to);
  void OnScanned(uint8_t segment, const std::string& to, absl::StatusOr<kv::ScanResult> result);

  ShardState& state_;
  std::unique_ptr<kv::Watch> watch_;
  bool watching_ = false;
  std::array<std::string, kLaneCount> told_to_;  // the ends of the watch
  uint64_t watch_generation_ = 0;
  uint64_t scan_generation_ = 0;
  absl::Time quiet_until_ = absl::InfinitePast();  // there is nothing to read before
  std::array<Segment, kSegmentCount> segments_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_INTAKE_SHARD_LOADER_H_
