#include "services/emitter/launches/launch_memory.h"

#include <iterator>

#include "common/base/check.h"
#include "common/base/proto_time.h"
#include "common/storage/children_table.h"
#include "services/emitter/base/options.h"

namespace escapement::emitter {
namespace {

// By jitter.
size_t PutOff(const Launch& launch) {
  return FromMicros(launch.record.nominal_time_micros()) < launch.key.launch_time ? 1 : 0;
}

}  // namespace

LaunchMemory::Kept LaunchMemory::Keep(const std::string& key, Launch launch) {
  const Uid uid = launch.key.uid;
  if (const Launch* known = Find(uid, key); known != nullptr) {
    if (known->seq >= launch.seq) return Kept::kAsBefore;
  } else {
    if (IsBeyond(uid, key)) return Kept::kAsBefore;
    if (!MakeRoom(launch.key.launch_time)) return Kept::kNoRoom;
    // Now, perhaps.
    if (IsBeyond(uid, key)) return Kept::kAsBefore;
  }
  Put(key, std::move(launch));
  return Kept::kKept;
}

bool LaunchMemory::IsBeyond(const Uid& uid, const std::string& key) const {
  const Schedule* schedule = Find(uid);
  return schedule != nullptr && !schedule->beyond.empty() && key >= schedule->beyond;
}

void LaunchMemory::Put(const std::string& key, Launch launch) {
  const Uid uid = launch.key.uid;
  const absl::Time launch_time = launch.key.launch_time;
  const auto [it, is_new_schedule] = schedules_.try_emplace(uid);
  Schedule& schedule = it->second;
  if (is_new_schedule) {
    schedule.partition = launch.key.partition;
    schedule.last = launch_time;
    last_.insert({launch_time, uid});
  }
  const auto [kept, is_new] = schedule.launches.try_emplace(key);
  if (is_new) {
    ++launches_;
  } else {
    TakeFrom(schedule.put_off, PutOff(kept->second));
  }
  kept->second = std::move(launch);
  schedule.put_off += PutOff(kept->second);
  if (launch_time > schedule.last) SetLast(uid, schedule, launch_time);
}

void LaunchMemory::SetLast(const Uid& uid, Schedule& schedule, absl::Time last) {
  CHECK_EQ(last_.erase({schedule.last, uid}), 1u);
  schedule.last = last;
  last_.insert({last, uid});
}

bool LaunchMemory::Forget(const Uid& uid, const std::string& key) {
  const auto schedule = schedules_.find(uid);
  if (schedule == schedules_.end()) return false;
  const auto launch = schedule->second.launches.find(key);
  if (launch == schedule->second.launches.end()) return false;
  Erase(schedule, launch);
  return true;
}

void LaunchMemory::Erase(Schedules::iterator schedule, Launches::iterator launch) {
  Schedule& of = schedule->second;
  TakeFrom(of.put_off, PutOff(launch->second));
  of.launches.erase(launch);
  TakeFrom<size_t>(launches_, 1);
  if (of.launches.empty()) {
    const uint16_t partition = of.partition;
    const std::string beyond = std::move(of.beyond);
    Drop(schedule);
    if (!beyond.empty()) observer_.read_from(partition, beyond);
    return;
  }
  SetLast(schedule->first, of, of.launches.rbegin()->second.key.launch_time);
}

bool LaunchMemory::MakeRoom(absl::Time launch_time) {
  while (launches_ >= launches_max_ && !paused_.empty())
    LetGoOfPaused(schedules_.find(*paused_.begin()));
  if (launches_ < launches_max_) return true;
  if (last_.empty() || last_.rbegin()->first <= launch_time) return false;
  LetGoOfLast();
  return true;
}

void LaunchMemory::LetGoOfLast() {
  const auto schedule = schedules_.find(last_.rbegin()->second);
  CHECK(schedule != schedules_.end() && !schedule->second.launches.empty());
  const uint16_t partition = schedule->second.partition;
  const auto launch = std::prev(schedule->second.launches.end());
  const std::string key = launch->first;
  Erase(schedule, launch);
  observer_.read_from(partition, key);
}

// Its first record is what it is judged by.
void LaunchMemory::LetGoOfPaused(Schedules::iterator schedule) {
  CHECK(schedule != schedules_.end());
  paused_.erase(schedule->first);
  Schedule& of = schedule->second;
  while (of.launches.size() > 1) {
    const auto launch = std::prev(of.launches.end());
    of.beyond = launch->first;
    Erase(schedule, launch);
  }
  observer_.on_left(schedule->first, 1);
}

bool LaunchMemory::RoomFrom(const std::string& key, absl::Time now) const {
  if (launches_ <= launches_max_ / 2) return true;
  const auto decoded = DecodeLaunchKey(key);
  const absl::Time at = decoded ? decoded->launch_time : absl::InfinitePast();
  // Either way the next record read is taken in.
  if (!last_.empty() && at < last_.rbegin()->first) return true;
  return at <= now + kLaunchReadAhead && (launches_ < launches_max_ || !paused_.empty());
}

void LaunchMemory::OnPaused(const Uid& uid, bool paused) {
  const auto it = schedules_.find(uid);
  if (it == schedules_.end()) return;
  Schedule& schedule = it->second;
  if (paused && schedule.launches.size() > 1) {
    paused_.insert(uid);
    return;
  }
  paused_.erase(uid);
  if (!paused && !schedule.beyond.empty())
    observer_.read_from(schedule.partition, std::exchange(schedule.beyond, {}));
}

void LaunchMemory::SetHasRun(const Uid& uid, const std::string& key) {
  const auto schedule = schedules_.find(uid);
  if (schedule == schedules_.end()) return;
  const auto launch = schedule->second.launches.find(key);
  if (launch != schedule->second.launches.end()) launch->second.has_run = true;
}

void LaunchMemory::DropPartition(uint32_t partition) {
  for (auto it = schedules_.begin(); it != schedules_.end();) {
    const auto schedule = it++;
    if (schedule->second.partition == partition) Drop(schedule);
  }
}

void LaunchMemory::Clear() {
  while (!schedules_.empty()) Drop(schedules_.begin());
}

void LaunchMemory::Drop(Schedules::iterator schedule) {
  observer_.on_left(schedule->first, 0);
  TakeFrom(launches_, schedule->second.launches.size());
  CHECK_EQ(last_.erase({schedule->second.last, schedule->first}), 1u);
  paused_.erase(schedule->first);
  schedules_.erase(schedule);
}

const LaunchMemory::Schedule* LaunchMemory::Find(const Uid& uid) const {
  const auto it = schedules_.find(uid);
  return it == schedules_.end() ? nullptr : &it->second;
}

const Launch* LaunchMemory::Find(const Uid& uid, const std::string& key) const {
  const Schedule* schedule = Find(uid);
  if (schedule == nullptr) return nullptr;
  const auto it = schedule->launches.find(key);
  return it == schedule->launches.end() ? nullptr : &it->second;
}

}  // namespace escapement::emitter
