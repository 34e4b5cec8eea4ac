#include "common/kv/log/pg/pg_values.h"

#include <postgresql/libpq-fe.h>

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "common/base/check.h"
#include "common/base/key_codec.h"

namespace escapement::kv {
namespace {

// Numbers of types in PostgreSQL's catalog (pg_type.dat); they never change.
constexpr uint32_t kByteaType = 17;
constexpr uint32_t kBigintType = 20;

// One dimension without NULLs, as array_recv reads it.
std::string ArrayHead(uint32_t type, size_t size) {
  std::string head;
  AppendBigEndian<uint32_t>(&head, size == 0 ? 0 : 1);  // dimensions
  AppendBigEndian<uint32_t>(&head, 0);                  // has no NULL
  AppendBigEndian<uint32_t>(&head, type);
  if (size == 0) return head;
  AppendBigEndian<uint32_t>(&head, static_cast<uint32_t>(size));
  AppendBigEndian<uint32_t>(&head, 1);  // the first index
  return head;
}

}  // namespace

PgValue PgValue::Bigint(uint64_t value) {
  std::string bytes;
  AppendBigEndian<uint64_t>(&bytes, value);
  return PgValue(std::move(bytes));
}

PgValue PgValue::Bigints(const std::vector<uint64_t>& values) {
  std::string bytes = ArrayHead(kBigintType, values.size());
  for (const uint64_t value : values) {
    AppendBigEndian<uint32_t>(&bytes, sizeof(value));
    AppendBigEndian<uint64_t>(&bytes, value);
  }
  return PgValue(std::move(bytes));
}

PgValue PgValue::BytesArray(const std::vector<std::string>& values) {
  std::string bytes = ArrayHead(kByteaType, values.size());
  for (const std::string& value : values) {
    AppendBigEndian<uint32_t>(&bytes, static_cast<uint32_t>(value.size()));
    bytes.append(value);
  }
  return PgValue(std::move(bytes));
}

PgRows::PgRows(pg_result* result) : result_(result, &PQclear) {}

size_t PgRows::size() const { return static_cast<size_t>(PQntuples(result_.get())); }

int PgRows::columns() const { return PQnfields(result_.get()); }

uint64_t PgRows::affected() const {
  uint64_t rows = 0;
  return absl::SimpleAtoi(PQcmdTuples(result_.get()), &rows) ? rows : 0;
}

bool PgRows::IsNull(size_t row, int column) const {
  return PQgetisnull(result_.get(), static_cast<int>(row), column) != 0;
}

absl::string_view PgRows::Bytes(size_t row, int column) const {
  return {PQgetvalue(result_.get(), static_cast<int>(row), column),
          static_cast<size_t>(PQgetlength(result_.get(), static_cast<int>(row), column))};
}

uint64_t PgRows::Bigint(size_t row, int column) const {
  const absl::string_view bytes = Bytes(row, column);
  CHECK_EQ(bytes.size(), sizeof(uint64_t));
  return ReadBigEndian<uint64_t>(bytes);
}

bool PgRows::Boolean(size_t row, int column) const {
  const absl::string_view bytes = Bytes(row, column);
  CHECK_EQ(bytes.size(), size_t{1});
  return bytes[0] != 0;
}

}  // namespace escapement::kv
