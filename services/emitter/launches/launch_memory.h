// LaunchMemory: the launch records in memory, by schedule, and which of them are evicted when
// memory is full.
//
// It evicts in this order:
//  1. all records but the first of each schedule that is known to be paused
//  2. the record with the latest launch time, if the new record is launched earlier; one by one
// The first record of a paused schedule stays, since the schedule is judged by it. The others are
// missing only once the schedule is resumed or its last record is gone.
//
// Pure: no timers, no store. It says what is in memory and what is missing, never when to act.
//
// Threads: one executor. The methods call the observer, which may call only const methods.

#ifndef SERVICES_EMITTER_LAUNCHES_LAUNCH_MEMORY_H_
#define SERVICES_EMITTER_LAUNCHES_LAUNCH_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/base/uid.h"
#include "services/emitter/launches/launch_plan.h"

namespace escapement::emitter {

class LaunchMemory {
 public:
  struct Schedule {
    uint16_t partition = 0;
    std::map<std::string, Launch> launches;  // by key, so by launch time; never empty
    size_t put_off = 0;                      // records whose launch is later than their time
    absl::Time last;                         // launch time of the last record; as in last_
    // Records from this key on are not in memory, since the schedule is paused; empty: all are.
    std::string beyond;
  };

  struct Observer {
    // Asks the owner to read the partition's records from this key on again, when there is room.
    std::function<void(uint16_t partition, const std::string& key)> read_from;
    // 1: the schedule is paused, and all its records but the first were evicted. 0: its last record
    // is gone, and the schedule is about to be dropped.
    std::function<void(const Uid& uid, size_t left)> on_left;
  };

  enum class Kept : uint8_t {
    kKept,
    kAsBefore,  // known already, or of a paused schedule beyond what is in memory
    kNoRoom,
  };

  LaunchMemory(size_t launches_max, Observer observer)
      : launches_max_(launches_max), observer_(std::move(observer)) {}

  // `launch` was read from this key. It may evict other records, even of the same schedule.
  Kept Keep(const std::string& key, Launch launch);
  // False: it is not known.
  bool Forget(const Uid& uid, const std::string& key);
  void DropPartition(uint32_t partition);
  void Clear();

  // Whether records from this key on are to be read now: a record of its launch time would be kept,
  // and either much room is left, or it is launched soon or earlier than something kept.
  bool RoomFrom(const std::string& key, absl::Time now) const;
  // The last judgement of a known schedule.
  void OnPaused(const Uid& uid, bool paused);
  // The record must be known.
  void SetHasRun(const Uid& uid, const std::string& key);

  // nullptr if there is none; valid until on_left tells of 0.
  const Schedule* Find(const Uid& uid) const;
  // nullptr if there is none; valid until the next method that is not const.
  const Launch* Find(const Uid& uid, const std::string& key) const;
  size_t launches() const { return launches_; }

 private:
  using Schedules = std::map<Uid, Schedule>;
  using Launches = std::map<std::string, Launch>;

  bool IsBeyond(const Uid& uid, const std::string& key) const;
  void Put(const std::string& key, Launch launch);
  void SetLast(const Uid& uid, Schedule& schedule, absl::Time last);
  void Erase(Schedules::iterator schedule, Launches::iterator launch);
  // For a record of this launch time. False: there is none.
  bool MakeRoom(absl::Time launch_time);
  void LetGoOfLast();
  void LetGoOfPaused(Schedules::iterator schedule);
  void Drop(Schedules::iterator schedule);

  const size_t launches_max_;
  const Observer observer_;
  Schedules schedules_;
  size_t launches_ = 0;                        // records of all schedules
  std::set<std::pair<absl::Time, Uid>> last_;  // the last launch time of each schedule
  std::set<Uid> paused_;                       // schedules whose records may be evicted except one
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_LAUNCHES_LAUNCH_MEMORY_H_
