#include "common/kv/replica/log_place.h"

#include "common/base/key_codec.h"
#include "common/status/return_if_error.h"

namespace escapement::kv {

std::string EncodeLogPlace(const LogPlace& place) {
  std::string out;
  AppendBigEndian<uint64_t>(&out, place.position.seq);
  AppendBigEndian<uint64_t>(&out, place.position.chain);
  AppendBigEndian<uint64_t>(&out, place.epoch);
  out.push_back(static_cast<char>(place.kind));
  AppendBigEndian<uint64_t>(&out, place.log_bytes);
  return out;
}

absl::StatusOr<LogPlace> DecodeLogPlace(absl::string_view bytes) {
  if (bytes.size() != 33) return absl::DataLossError("the copy's place in the log is malformed");
  LogPlace place;
  place.position.seq = ReadBigEndian<uint64_t>(bytes);
  place.position.chain = ReadBigEndian<uint64_t>(bytes.substr(8));
  place.epoch = ReadBigEndian<uint64_t>(bytes.substr(16));
  RETURN_IF_ERROR(ReadRecordKind(bytes.substr(24, 1), place.kind));
  place.log_bytes = ReadBigEndian<uint64_t>(bytes.substr(25));
  return place;
}

absl::StatusOr<LogPlace> PlaceBehind(const LogPlace& before, const LogRow& row) {
  LogPlace place;
  place.position = row.position;
  place.epoch = row.epoch;
  RETURN_IF_ERROR(ReadRecordKind(*row.data, place.kind));
  place.log_bytes = before.log_bytes + row.data->size();
  return place;
}

}  // namespace escapement::kv
