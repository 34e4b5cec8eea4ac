// LaunchWatch: tells of the launch records and of the marks of active runs of the partitions that
// this instance holds: records are read once when a partition is taken, then both are watched.
//
// A record may be told of several times, and once after it has gone: whoever acts upon one has the
// condition that it is there. While there is no room the rest of a partition stays unread, from one
// key on.
//
// Threads: one executor; all methods and callbacks run there.

#ifndef SERVICES_EMITTER_LAUNCHES_LAUNCH_WATCH_H_
#define SERVICES_EMITTER_LAUNCHES_LAUNCH_WATCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/kv/client/kv_client.h"
#include "common/runtime/runtime.h"
#include "common/storage/children_table.h"

namespace escapement::emitter {

class LaunchWatch : public std::enable_shared_from_this<LaunchWatch> {
 public:
  struct Observer {
    // For records from this key on.
    std::function<bool(const std::string& key)> has_room;
    // False: it was not kept for want of room.
    std::function<bool(const std::string& key, const std::string& value, kv::CommitSeq seq)>
        on_record;
    std::function<void(const LaunchKey& key, const std::string& bytes)> on_record_gone;
    std::function<void(const ActiveRun& run, const std::string& key, bool put, kv::CommitSeq seq)>
        on_mark;
    std::function<void()> on_told;  // after some of the above
    std::function<void()> on_lost;  // the watch lagged: every record will be reported again
  };

  // `client` outlives it; made by make_shared.
  LaunchWatch(kv::KvClient& client, std::shared_ptr<Executor> executor, Observer observer);

  void Start();
  void AddPartition(uint32_t partition);
  void DropPartition(uint32_t partition);
  void Stop();

  // All records of the partition have been told of.
  bool AllRead(uint32_t partition) const;
  // There is room again, perhaps.
  void ReadOn();
  // Reports the records from this key on once more.
  void ReadFrom(uint32_t partition, const std::string& key);

 private:
  struct Partition {
    uint64_t generation = 0;
    // Records from this key on are to be read; nullopt: all are known.
    std::optional<std::string> unread;
    bool reading = false;
  };

  void Open();
  void OnBatch(const kv::WatchBatch& batch);
  void OnLagged();
  Partition Unread(uint32_t partition);
  void Read(uint32_t partition, Partition& state);
  void OnRead(uint32_t partition, uint64_t generation, const std::string& from,
              const absl::StatusOr<kv::ScanResult>& result);

  kv::KvClient& client_;
  const std::shared_ptr<Executor> executor_;
  const Observer observer_;
  bool stopped_ = false;
  uint64_t generations_ = 0;
  std::unique_ptr<kv::Watch> watch_;
  std::map<uint32_t, Partition> partitions_;
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_LAUNCHES_LAUNCH_WATCH_H_
