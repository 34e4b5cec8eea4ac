#include "common/kv/replica/log_record.h"

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/status_macros.h"

namespace escapement::kv {

namespace {

constexpr size_t kLogPlaceBytes = kLogPlaceBasicBytes + 40;
constexpr char kPut = 1;
constexpr char kDelete = 2;
constexpr char kDeleteRange = 3;

absl::Status MalformedRow() { return absl::DataLossError("a row of the log is malformed"); }

// Takes a length and so many bytes from the front of `rest`.
bool TakeBytes(absl::string_view& rest, absl::string_view& bytes) {
  if (rest.size() < 4) return false;
  const size_t size = ReadBigEndian<uint32_t>(rest);
  rest.remove_prefix(4);
  if (rest.size() < size) return false;
  bytes = rest.substr(0, size);
  rest.remove_prefix(size);
  return true;
}

}  // namespace

void RecordWriter::Put(ColumnFamily cf, absl::string_view key, absl::string_view value) {
  Add(kPut, cf, key);
  AddBytes(value);
}

void RecordWriter::Delete(ColumnFamily cf, absl::string_view key) { Add(kDelete, cf, key); }

void RecordWriter::DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end) {
  Add(kDeleteRange, cf, begin);
  AddBytes(end);
}

void RecordWriter::Add(char operation, ColumnFamily cf, absl::string_view key) {
  bytes_.push_back(operation);
  bytes_.push_back(static_cast<char>(cf));
  AddBytes(key);
}

void RecordWriter::AddBytes(absl::string_view bytes) {
  AppendBigEndian<uint32_t>(&bytes_, static_cast<uint32_t>(bytes.size()));
  bytes_.append(bytes.data(), bytes.size());
}

absl::Status ReadRecordKind(absl::string_view record, RecordKind& kind) {
  if (record.empty()) return MalformedRow();
  const auto number = static_cast<uint8_t>(record[0]);
  if (number < static_cast<uint8_t>(RecordKind::kLeader) ||
      number > static_cast<uint8_t>(RecordKind::kMovedOut)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the log has a row of kind ", number,
        ", which this program does not know: update every replica before the first one leads"));
  }
  kind = static_cast<RecordKind>(number);
  return absl::OkStatus();
}

absl::Status ApplyRecord(absl::string_view record, WriteSink& sink) {
  RecordKind kind;
  RETURN_IF_ERROR(ReadRecordKind(record, kind));
  absl::string_view rest = record.substr(1);
  while (!rest.empty()) {
    if (rest.size() < 2) return MalformedRow();
    const char operation = rest[0];
    const auto family = static_cast<uint8_t>(rest[1]);
    if (family >= kColumnFamilyCount) return MalformedRow();
    const auto cf = static_cast<ColumnFamily>(family);
    rest.remove_prefix(2);
    absl::string_view key;
    absl::string_view value;
    if (!TakeBytes(rest, key)) return MalformedRow();
    if (operation != kDelete && !TakeBytes(rest, value)) return MalformedRow();
    switch (operation) {
      case kPut:
        sink.Put(cf, key, value);
        break;
      case kDelete:
        sink.Delete(cf, key);
        break;
      case kDeleteRange:
        sink.DeleteRange(cf, key, value);
        break;
      default:
        return MalformedRow();
    }
  }
  return absl::OkStatus();
}

std::string EncodeLogPlace(const LogPlace& place) {
  std::string out;
  AppendBigEndian<uint64_t>(&out, place.position.seq);
  AppendBigEndian<uint64_t>(&out, place.position.chain);
  AppendBigEndian<uint64_t>(&out, place.epoch);
  out.push_back(static_cast<char>(place.kind));
  AppendBigEndian<uint64_t>(&out, place.log_bytes);
  AppendBigEndian<uint64_t>(&out, place.genesis);
  for (const LogPosition& position : {place.proven, place.before}) {
    AppendBigEndian<uint64_t>(&out, position.seq);
    AppendBigEndian<uint64_t>(&out, position.chain);
  }
  return out;
}

absl::StatusOr<LogPlace> DecodeLogPlace(absl::string_view bytes) {
  if (bytes.size() != kLogPlaceBasicBytes && bytes.size() != kLogPlaceBytes)
    return absl::DataLossError("the copy's place in the log is malformed");
  LogPlace place;
  place.position.seq = ReadBigEndian<uint64_t>(bytes);
  place.position.chain = ReadBigEndian<uint64_t>(bytes.substr(8));
  place.epoch = ReadBigEndian<uint64_t>(bytes.substr(16));
  RETURN_IF_ERROR(ReadRecordKind(bytes.substr(24, 1), place.kind));
  place.log_bytes = ReadBigEndian<uint64_t>(bytes.substr(25));
  if (bytes.size() == kLogPlaceBasicBytes) return place;
  place.genesis = ReadBigEndian<uint64_t>(bytes.substr(33));
  place.proven = {ReadBigEndian<uint64_t>(bytes.substr(41)),
                  ReadBigEndian<uint64_t>(bytes.substr(49))};
  place.before = {ReadBigEndian<uint64_t>(bytes.substr(57)),
                  ReadBigEndian<uint64_t>(bytes.substr(65))};
  return place;
}

absl::StatusOr<LogPlace> PlaceBehind(const LogPlace& before, const LogRow& row) {
  LogPlace place;
  place.position = row.position;
  place.epoch = row.epoch;
  RETURN_IF_ERROR(ReadRecordKind(*row.data, place.kind));
  place.log_bytes = before.log_bytes + row.data->size();
  place.genesis = before.genesis;
  place.proven = before.proven;
  place.before = before.before;
  // A proof is sent while the rows before it are unacknowledged, so it proves nothing to a reader.
  if (place.kind == RecordKind::kProof) return place;
  if (place.kind != RecordKind::kLeader && before.before.seq > before.proven.seq)
    place.proven = before.before;
  place.before = before.position;
  return place;
}

}  // namespace escapement::kv
