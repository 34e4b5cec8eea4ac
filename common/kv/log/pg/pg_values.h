// Parameters and results of statements in PostgreSQL's binary format.
//
// Threads: plain values.

#ifndef COMMON_KV_LOG_PG_PG_VALUES_H_
#define COMMON_KV_LOG_PG_PG_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

struct pg_result;  // libpq's PGresult

namespace escapement::kv {

// One parameter. Statements must give the types: $1::text, $2::bigint, $3::bytea …
class PgValue {
 public:
  static PgValue Bigint(uint64_t value);  // the bits of a signed bigint
  static PgValue Text(std::string value) { return PgValue(std::move(value)); }
  static PgValue Bytes(std::string value) { return PgValue(std::move(value)); }
  static PgValue Bytes(std::shared_ptr<const std::string> value) {
    return PgValue(std::move(value));
  }
  static PgValue Bigints(const std::vector<uint64_t>& values);        // bigint[]
  static PgValue BytesArray(const std::vector<std::string>& values);  // bytea[]

  const std::string& bytes() const { return shared_ == nullptr ? own_ : *shared_; }

 private:
  explicit PgValue(std::string own) : own_(std::move(own)) {}
  explicit PgValue(std::shared_ptr<const std::string> shared) : shared_(std::move(shared)) {}

  std::string own_;
  std::shared_ptr<const std::string> shared_;
};

// The rows that one statement has returned. Copies share them.
class PgRows {
 public:
  explicit PgRows(pg_result* result);  // takes the result over

  size_t size() const;
  int columns() const;
  // How many rows an INSERT, UPDATE, DELETE or SELECT has concerned.
  uint64_t affected() const;
  bool IsNull(size_t row, int column) const;
  uint64_t Bigint(size_t row, int column) const;
  bool Boolean(size_t row, int column) const;
  absl::string_view Bytes(size_t row, int column) const;  // also of text; lives as long as the rows

 private:
  std::shared_ptr<pg_result> result_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_PG_PG_VALUES_H_
