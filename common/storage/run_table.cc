#include "common/storage/run_table.h"

#include "common/base/key_codec.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

std::string RunPrefix(const Uid& uid) { return std::string(uid.bytes()); }

bool HasRun(const storage::v1::EventRecord& row) {
  return (row.run_count() > 1 || row.run_kept()) && !row.counts_in_no_run();
}

std::string EncodeRunKey(const RunKey& key) {
  return KeyWriter().Id(key.uid).Text(key.occurrence).Take();
}

std::optional<RunKey> DecodeRunKey(absl::string_view bytes) {
  KeyReader reader(bytes);
  RunKey key;
  key.uid = reader.Id();
  key.occurrence = reader.Text();
  if (!reader.done()) return std::nullopt;
  return key;
}

std::string RunPartPrefix(const RunKey& run) { return EncodeRunKey(run); }

std::string RunPartKey(const RunKey& run, uint16_t shard) {
  return KeyWriter(RunPartPrefix(run)).U16(shard).Take();
}

}  // namespace escapement
