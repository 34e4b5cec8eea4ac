#include "common/storage/name_tables.h"

#include "absl/strings/str_format.h"
#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/uid.h"
#include "common/storage/event_id.h"

namespace escapement {

namespace {

constexpr uint8_t kApiKey = 0;
constexpr uint8_t kUse = 1;

}  // namespace

std::string TenantKey(absl::string_view tenant) { return KeyWriter().Text(tenant).Take(); }

std::optional<std::string> DecodeTenantKey(absl::string_view key) {
  KeyReader reader(key);
  std::string tenant = reader.Text();
  if (!reader.done()) return std::nullopt;
  return tenant;
}

std::string CellKey(uint32_t cell) { return absl::StrFormat("%s%02d", kCellPrefix, cell); }

std::string ApiKeyKey(absl::string_view tenant, absl::string_view key_id) {
  return KeyWriter(ApiKeyPrefix(tenant)).Text(key_id).Take();
}

std::string ApiKeyPrefix() { return KeyWriter().U8(kApiKey).Take(); }

std::string ApiKeyPrefix(absl::string_view tenant) {
  return KeyWriter().U8(kApiKey).Text(tenant).Take();
}

std::optional<std::string> DecodeApiKeyKey(absl::string_view key) {
  KeyReader reader(key);
  const bool of_key = reader.U8() == kApiKey;
  reader.Text();
  std::string key_id = reader.Text();
  if (!of_key || !reader.done()) return std::nullopt;
  return key_id;
}

std::string ApiKeyUseKey(absl::string_view key_id) {
  return KeyWriter().U8(kUse).Text(key_id).Take();
}

std::string EncodeApiKeyUse(absl::Time time) { return KeyWriter().Time(time).Take(); }

absl::Time DecodeApiKeyUse(absl::string_view value) {
  KeyReader reader(value);
  const absl::Time time = reader.Time();
  return reader.done() ? time : absl::InfinitePast();
}

std::string AuditKey(absl::string_view tenant, const AuditPlace& place) {
  return KeyWriter(AuditKeyFrom(tenant, place.time)).Id(place.hash).Take();
}

std::string AuditPrefix(absl::string_view tenant) { return KeyWriter().Text(tenant).Take(); }

std::string AuditKeyFrom(absl::string_view tenant, absl::Time time) {
  return KeyWriter().Text(tenant).Time(time).Take();
}

std::optional<AuditName> DecodeAuditKey(absl::string_view key) {
  KeyReader reader(key);
  AuditName name;
  name.tenant = reader.Text();
  name.place.time = reader.Time();
  name.place.hash = reader.Id();
  if (!reader.done()) return std::nullopt;
  return name;
}

std::string EventNameKey(absl::string_view tenant, absl::string_view event_id) {
  return KeyWriter().Text(tenant).Text(event_id).Take();
}

std::string DeadLetterKey(absl::string_view tenant, absl::Time time, absl::string_view event_id) {
  return KeyWriter().Text(tenant).Time(time).Text(event_id).Take();
}

std::string RequestKey(absl::string_view tenant, absl::string_view request_id) {
  return KeyWriter().Text(tenant).Text(request_id).Take();
}

std::string EncodeDeadLetterKey(const DeadLetterName& name) {
  return DeadLetterKey(name.tenant, name.time, name.event_id);
}

std::optional<DeadLetterName> DecodeDeadLetterKey(absl::string_view key) {
  KeyReader reader(key);
  DeadLetterName name;
  name.tenant = reader.Text();
  name.time = reader.Time();
  name.event_id = reader.Text();
  if (!reader.done()) return std::nullopt;
  return name;
}

std::string DeadLetterPrefix(absl::string_view tenant) { return KeyWriter().Text(tenant).Take(); }

std::string DeadLetterKeyFrom(absl::string_view tenant, absl::Time time) {
  if (time == absl::InfinitePast()) return DeadLetterPrefix(tenant);
  if (time == absl::InfiniteFuture()) return PrefixEnd(DeadLetterPrefix(tenant));
  return KeyWriter().Text(tenant).Time(time).Take();
}

bool IsOneOff(const storage::v1::DeadLetterRecord& letter) { return letter.event().version() == 0; }

std::optional<DoneKey> DoneKeyOf(const storage::v1::DeadLetterRecord& letter,
                                 absl::string_view event_id, uint32_t queue_shards) {
  if (letter.uid().size() != Uid::kBytes) return std::nullopt;
  const storage::v1::EventRecord& event = letter.event();
  DoneKey key;
  key.uid = Uid::FromBytes(letter.uid());
  key.occurrence = letter.occurrence();
  key.first = letter.index();
  key.day = DoneDay(FromMicros(event.launch_time_micros()));
  if (!IsOneOff(letter) && event.run_count() > 1) {
    key.shard = ShardOfIndex(event.run_count(), letter.index(), queue_shards);
  } else if (const auto row = ParseServerMadeEventId(event_id); IsOneOff(letter) && row) {
    key.shard = row->shard;
  } else {
    key.shard = ShardOfEventId(event_id, queue_shards);
  }
  return key;
}

std::string OperationKey(absl::string_view tenant, absl::string_view operation_id) {
  return KeyWriter().Text(tenant).Text(operation_id).Take();
}

std::string OperationPrefix(absl::string_view tenant) { return KeyWriter().Text(tenant).Take(); }

std::string NewOperationId(absl::Time now, uint64_t random) {
  return absl::StrFormat("%016x%016x", static_cast<uint64_t>(ToMicros(now)), random);
}

std::string PauseRequestKey(const Uid& schedule) { return KeyWriter().Id(schedule).Take(); }

Uid TargetIdOf(absl::string_view target_key) { return StableHash128(target_key); }

std::string EncodeTargetRowKey(const TargetRowName& name) {
  return KeyWriter(TargetRowPrefix(name.tenant, name.target)).Text(name.handler).Take();
}

std::optional<TargetRowName> DecodeTargetRowKey(absl::string_view key) {
  KeyReader reader(key);
  TargetRowName name;
  name.tenant = reader.Text();
  name.target = reader.Id();
  name.handler = reader.Text();
  if (!reader.done()) return std::nullopt;
  return name;
}

std::string TargetRowPrefix(absl::string_view tenant) { return KeyWriter().Text(tenant).Take(); }

std::string TargetRowPrefix(absl::string_view tenant, const Uid& target) {
  return KeyWriter().Text(tenant).Id(target).Take();
}

}  // namespace escapement
