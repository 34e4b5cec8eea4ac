#include "common/storage/waiting_table.h"

#include "common/base/key_codec.h"
#include "common/storage/policy_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {
namespace {

constexpr uint8_t kReport = 0;
constexpr uint8_t kRow = 1;

}  // namespace

std::string WaitingShardPrefix(uint16_t policy_shard) {
  return KeyWriter().U16(policy_shard).Take();
}

std::string WaitingRowsPrefix(uint16_t policy_shard) {
  return KeyWriter().U16(policy_shard).U8(kRow).Take();
}

std::string ReportsPrefix(uint16_t policy_shard) {
  return KeyWriter().U16(policy_shard).U8(kReport).Take();
}

std::string WaitingPolicyPrefix(uint16_t policy_shard, const Uid& policy) {
  return KeyWriter(WaitingRowsPrefix(policy_shard)).Id(policy).Take();
}

std::string WaitingGroupPrefix(uint16_t policy_shard, const Uid& policy, uint8_t priority,
                               const Uid& uid) {
  return KeyWriter(WaitingPolicyPrefix(policy_shard, policy)).U8(priority).Id(uid).Take();
}

std::string EncodeWaitingKey(const WaitingKey& key) {
  return KeyWriter(WaitingGroupPrefix(key.policy_shard, key.policy, key.priority, key.uid))
      .Time(key.due_time)
      .Text(key.occurrence)
      .U64(key.first)
      .Take();
}

std::optional<WaitingKey> DecodeWaitingKey(absl::string_view bytes) {
  KeyReader reader(bytes);
  WaitingKey key;
  key.policy_shard = reader.U16();
  const bool row = reader.U8() == kRow;
  key.policy = reader.Id();
  key.priority = reader.U8();
  key.uid = reader.Id();
  key.due_time = reader.Time();
  key.occurrence = reader.Text();
  key.first = reader.U64();
  if (!row || !reader.done()) return std::nullopt;
  return key;
}

std::string EncodeReportKey(const ReportKey& key) {
  return KeyWriter(ReportsPrefix(key.policy_shard))
      .U16(key.origin)
      .U64(key.a)
      .U64(key.b)
      .U32(key.c)
      .Take();
}

bool IsReportKey(absl::string_view key) {
  return key.size() > 2 && static_cast<uint8_t>(key[2]) == kReport;
}

WaitingKey WaitingKeyOf(const storage::v1::EventRecord& row, const Uid& uid,
                        absl::string_view occurrence, uint64_t first, absl::Time due_time,
                        uint32_t policy_shards) {
  WaitingKey key;
  key.policy = WaitingUid(row.tenant(), row.throttle(), uid);
  key.policy_shard = PolicyShardOf(key.policy, policy_shards);
  key.priority = static_cast<uint8_t>(row.priority());
  key.uid = uid;
  key.due_time = due_time;
  key.occurrence = std::string(occurrence);
  key.first = first;
  return key;
}

}  // namespace escapement
