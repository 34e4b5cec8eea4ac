// MergedScan: several ranges of one column family (lanes) read as one sequence.
//
// Each lane holds keys with a prefix of its own, of equal length in all lanes. The rest of a key is
// the rank of its row. The scan merges the lanes by rank. Rows of equal rank come in the
// order of their lanes.
//
// It first reads some rows of every lane, and more of a lane only when its rows are used up. Each
// read has its own snapshot, so a row that moves between lanes may come twice or not at all.
//
// Threads: callbacks run on the context's executor. One Next at a time.

#ifndef SERVICES_MASTER_REQUESTS_MERGED_SCAN_H_
#define SERVICES_MASTER_REQUESTS_MERGED_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/kv/kv_store.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

class MergedScan : public std::enable_shared_from_this<MergedScan> {
 public:
  struct Options {
    kv::ColumnFamily cf = kv::ColumnFamily::kMeta;
    std::vector<kv::KeyRange> lanes;  // an empty lane (begin >= end) has no rows
    size_t prefix_bytes = 0;          // length of the prefix
    bool descending = false;
  };
  using Rows = std::vector<kv::Entry>;

  MergedScan(MasterContext& context, Options options);

  // Calls back with the next rows: `limit`, or fewer if they have many bytes or the scan has ended.
  void Next(size_t limit, absl::AnyInvocable<void(absl::StatusOr<Rows>)> done);

  // True if all rows have been given.
  bool ended() const;
  absl::string_view RankOf(const kv::Entry& row) const {
    return absl::string_view(row.key).substr(options_.prefix_bytes);
  }

 private:
  struct Lane {
    std::string begin, end;  // not read yet
    Rows rows;               // read; those before `next` have been given
    size_t next = 0;
    bool more = false;
    uint32_t chunk = 0;  // rows of its next read

    bool empty() const { return next == rows.size(); }
  };

  void Fill();
  void Read(size_t lane);
  void OnRead(size_t lane, absl::StatusOr<kv::ScanResult> result);
  void Merge();
  // The lane whose row is next; nullptr if none has rows.
  Lane* First();

  MasterContext& context_;
  const Options options_;
  std::vector<Lane> lanes_;
  size_t reading_ = 0;  // lanes
  absl::Status status_;
  size_t limit_ = 0;
  size_t bytes_ = 0;  // bytes of rows_
  Rows rows_;
  absl::AnyInvocable<void(absl::StatusOr<Rows>)> done_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_MERGED_SCAN_H_
