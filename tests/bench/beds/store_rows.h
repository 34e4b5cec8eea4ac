// How much the platform's processes hold: rows of the store, and memory.

#ifndef TESTS_BENCH_BEDS_STORE_ROWS_H_
#define TESTS_BENCH_BEDS_STORE_ROWS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace escapement::bench {

// Rows in each column family of the store at "host:port" that has work (leases and the like are
// left out).
absl::StatusOr<std::map<std::string, uint64_t>> CountRows(const std::string& store);

// Resident bytes of this process' child that runs the program of this name.
absl::StatusOr<uint64_t> ResidentBytes(const std::string& program);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_STORE_ROWS_H_
