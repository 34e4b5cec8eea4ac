// Measures how much disk a closed store takes once RocksDB has compacted it.

#ifndef TESTS_BENCH_BEDS_COMPACTED_STORE_H_
#define TESTS_BENCH_BEDS_COMPACTED_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace escapement::bench {

// Compacts every column family, with the settings that the store has left in the folder. Returns
// bytes of table files by family. No process may have the folder open.
absl::StatusOr<std::map<std::string, uint64_t>> CompactStore(const std::string& data_folder);

// The raw limit: bytes that one of `rows` values takes under a key of 16 bytes, after compaction.
// The database is a new one in `folder`, with the settings of the store's `events` family.
absl::StatusOr<double> BareBytesPerRow(const std::string& data_folder, const std::string& folder,
                                       uint64_t rows,
                                       const std::function<std::string(uint64_t i)>& value);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_COMPACTED_STORE_H_
