#include "common/storage/dead_letter_table.h"

#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/base/uid.h"
#include "common/storage/event_id.h"
#include "common/storage/name_tables.h"

namespace escapement {

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

}  // namespace escapement
