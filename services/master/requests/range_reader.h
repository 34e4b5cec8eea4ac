// Reads ranges of keys one after the other, page by page, and any number of single keys.
//
// Threads: callbacks run on the context's executor.

#ifndef SERVICES_MASTER_REQUESTS_RANGE_READER_H_
#define SERVICES_MASTER_REQUESTS_RANGE_READER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/kv/kv_store.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

struct KeyRange {
  kv::ColumnFamily cf = kv::ColumnFamily::kMeta;
  std::string begin, end;
};

// Visits an entry of the range, which it may move from. Returns false to end the reading.
using VisitEntry =
    absl::AnyInvocable<absl::StatusOr<bool>(const KeyRange& range, kv::Entry& entry)>;

// Visits at most `rows_max` rows of each range, and the rest of their page; later rows are left
// out. Ends with the first error.
void ReadRanges(MasterContext& context, std::vector<KeyRange> ranges, size_t rows_max,
                VisitEntry visit, absl::AnyInvocable<void(absl::Status)> done);

// In the order of the keys; more than one read of the store takes are of several snapshots.
using KeyValues = std::vector<std::optional<std::string>>;
void ReadKeys(MasterContext& context, std::vector<kv::Key> keys,
              absl::AnyInvocable<void(absl::StatusOr<KeyValues>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_RANGE_READER_H_
