// Rates of RocksDB alone with the platform's rows: the raw limit of durable work on this machine.

#ifndef TESTS_BENCH_RAW_RAW_STORE_H_
#define TESTS_BENCH_RAW_RAW_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace escapement::bench {

class RawStore {
 public:
  // `folder` is empty.
  explicit RawStore(const std::string& folder);
  ~RawStore();

  // Puts rows of one-off events with payloads of this size, in synced batches of 1,000. Returns
  // rows per second.
  double PutRows(uint64_t rows, size_t payload_bytes);
  // Puts each row in a synced batch; a later batch deletes it and puts its Done record. Returns
  // rows per second.
  double ChurnRows(uint64_t rows, size_t payload_bytes);

 private:
  rocksdb::DB* db_ = nullptr;
  uint64_t next_ = 0;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_RAW_STORE_H_
