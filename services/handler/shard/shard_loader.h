// ShardLoader: keeps the rows of one queue shard that are due within the horizon in its DueQueue,
// lane by lane, within bounds.
//
// In each lane every row below `loaded_to` has been seen. One watch covers all lanes, each from its
// beginning to the end of what is loaded or being scanned. It opens before the first scan, so a new
// row is either reported by the watch or found by a later scan. Rows due after the horizon are not
// reported. If the watch lags, all lanes are scanned again, and rows in hand are skipped.
//
// An on-time lane that cannot keep up is read in two segments (due_queue.h), split at the lane's
// mark: one continues with the late rows before the mark, the other reads the rows from the mark
// on at once. So rows that are due now do not wait for the backlog. The mark is as early as
// possible, because rows before it wait with the backlog. If rows after the mark become late
// too, they are dropped from memory and the mark moves up. When the backlog has been read and
// taken, the lane is one segment again.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_SHARD_SHARD_LOADER_H_
#define SERVICES_HANDLER_SHARD_SHARD_LOADER_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "services/handler/shard/shard_state.h"

namespace escapement::handler {

class ShardLoader {
 public:
  explicit ShardLoader(QueueShardState& state) : state_(state) {}

  void Start();

  // Begins the scans that are needed and have room.
  void Step(absl::Time now);

  // Scans all lanes again, because rows were evicted.
  void Rewind();

  // True if the row of an on-time lane has been due for longer than kLateAfter.
  bool IsLate(absl::string_view key, absl::Time now) const;
  // Puts a held row back into the queue as late, with all rows of its lane up to its due time.
  void RequeueAsLate(QueuedRow row);

  // False: rows that are due by `now` and stand in an on-time lane may not have been seen, although
  // there is room for them.
  bool HasReadTo(absl::Time now) const;

  // True if a row that was just written belongs into the queue; otherwise a scan will find it.
  bool WantsRow(absl::string_view key);

 private:
  struct Segment {
    std::string loaded_to = {};
    std::string scanning_to = {};  // empty: no scan is under way
    std::string dropped = {};      // the smallest key dropped during the scan; empty: none
    bool more = false;             // the last scan did not reach the end of the segment
    bool quiet = false;            // the last scan found nothing: read up to kQuietHorizon
  };
  void OpenWatch(kv::CommitSeq from);
  // Sets the end of the lane's part of the watch.
  void MoveWatchEnd(uint8_t lane, std::string end);
  // Moves the watch's end down to the loaded part of a segment that has no scan under way.
  void ShrinkWatch(uint8_t segment);
  void OnBatch(const kv::WatchBatch& batch);
  void AddRow(absl::string_view key, absl::string_view value, kv::CommitSeq seq);
  void DropLatest(uint8_t segment);
  // Marks the rows of the segment from `key` on as not read.
  void RereadFrom(uint8_t segment, std::string key);
  void ReadOmitted(std::vector<kv::Key> keys);
  // The key up to which the segment should be loaded. It moves when less than three quarters of the
  // horizon are loaded.
  std::string LoadEnd(uint8_t segment, absl::Time now) const;
  bool IsFull(uint8_t segment) const;
  // The mark that the lane needs now. If it can keep up: empty, or not after its present mark.
  std::string LateMark(uint8_t lane, absl::Time now) const;
  // Makes the rows before `mark` late. The rows from the mark on are loaded beside them.
  void MoveLateMark(uint8_t lane, std::string mark);
  void ScanSegment(uint8_t segment, std::string to);
  void OnScanned(uint8_t segment, const std::string& to, absl::StatusOr<kv::ScanResult> result);

  QueueShardState& state_;
  std::unique_ptr<kv::Watch> watch_;
  bool watching_ = false;
  std::array<std::string, kLaneCount> watch_ends_;  // by lane
  uint64_t watch_generation_ = 0;
  uint64_t scan_generation_ = 0;
  absl::Time no_scan_before_ = absl::InfinitePast();  // no scan is needed before this
  std::array<Segment, kSegmentCount> segments_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SHARD_SHARD_LOADER_H_
