// The `done` column family: how events ended. Rows are ordered by the UTC day of their launch time,
// so that a day can be deleted as one range.
//
// queue shard (u16), day since 1970 (u32), uid (16 bytes), occurrence (text), first index (u64) →
// DoneRecord

#ifndef COMMON_STORAGE_DONE_TABLE_H_
#define COMMON_STORAGE_DONE_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

struct DoneKey {
  uint16_t shard = 0;
  uint32_t day = 0;  // DoneDay(launch time), the same for every attempt of an event
  Uid uid;
  std::string occurrence;
  uint64_t first = 0;

  friend bool operator==(const DoneKey&, const DoneKey&) = default;
};

// Whole UTC days since 1970; 0 for earlier times.
uint32_t DoneDay(absl::Time launch_time);

std::string EncodeDoneKey(const DoneKey& key);
std::optional<DoneKey> DecodeDoneKey(absl::string_view key);

// The first key of a day in a shard.
std::string DoneDayKey(uint16_t shard, uint32_t day);
// The prefix of all rows of a uid on that day (DoneUidPrefix), and of all rows of one run of it
// (DoneRunPrefix).
std::string DoneUidPrefix(uint16_t shard, uint32_t day, const Uid& uid);
std::string DoneRunPrefix(uint16_t shard, uint32_t day, const Uid& uid,
                          absl::string_view occurrence);

// The part of a Done record that it repeats from the row whose events have ended.
//
// Pure.

// Sets tenant, event id, version, attempts, the attempts that the row remembers, times of the
// occurrence, and what the row says about its run. The caller sets count, outcome, reason, output,
// and the last attempt with the times of dispatch and completion.
storage::v1::DoneRecord DoneRecordOf(const storage::v1::EventRecord& row);

}  // namespace escapement

#endif  // COMMON_STORAGE_DONE_TABLE_H_
