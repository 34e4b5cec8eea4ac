// ReadDescending: the order_by of lists that have one order and its reverse. Pure.

#ifndef SERVICES_MASTER_REQUESTS_RANGE_READER_H_
#define SERVICES_MASTER_REQUESTS_RANGE_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/kv/kv_store.h"
#include "common/status/errors.h"
#include "google/protobuf/message_lite.h"
#include "services/master/base/limits.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

// True for "FIELD desc", false for "FIELD" and "FIELD asc", `unset` for no words.
// INVALID_ARGUMENT (order_by) for all else.
absl::StatusOr<bool> ReadDescending(absl::string_view order_by, absl::string_view field,
                                    bool unset);

// PageBudget: how many bytes of items one page of a list may still hold.
//
// Ordinary gRPC clients refuse an answer of more than 4 MiB, so a page ends early, with a token,
// once its items have kPageBytesMax bytes. Pure.

class PageBudget {
 public:
  // Takes the item's bytes. False if it does not fit any more: the page ends before it. The first
  // item always fits, so every page makes progress.
  bool Take(const google::protobuf::MessageLite& item) {
    const size_t bytes = item.ByteSizeLong() + kItemFrameBytes;
    if (bytes_ > 0 && bytes_ + bytes > kPageBytesMax) return false;
    bytes_ += bytes;
    return true;
  }

 private:
  static constexpr size_t kItemFrameBytes = 6;  // tag and length of a repeated field, at most
  size_t bytes_ = 0;
};

// Page tokens: a token names the position at which the list goes on. So the server keeps nothing
// for a page, and the list stays right if resources change between two pages.
//
// A token is the base64url of a check and the position. The check covers the position and the list
// that the token belongs to (method, parent, filter). Pure.

// `list` names the list. `position` is not empty.
std::string EncodePageToken(absl::string_view list, absl::string_view position);

// The position; empty for the empty token. INVALID_ARGUMENT (page_token) if the token was changed
// in any character, or is another list's.
absl::StatusOr<std::string> DecodePageToken(absl::string_view list, absl::string_view token);

// The default if 0, cut at the maximum. INVALID_ARGUMENT (page_size) if negative.
absl::StatusOr<int32_t> ReadPageSize(int32_t page_size);

// Both fields of a request for a page of this list. INVALID_ARGUMENT with each that is wrong.
struct PageRequest {
  size_t size = 0;
  std::string position;  // empty: the beginning
};
template <typename Request>
absl::StatusOr<PageRequest> ReadPage(absl::string_view list, const Request& request) {
  const absl::StatusOr<int32_t> size = ReadPageSize(request.page_size());
  absl::StatusOr<std::string> position = DecodePageToken(list, request.page_token());
  FieldViolations violations;
  violations.AddStatus("", size.status());
  violations.AddStatus("", position.status());
  if (!violations.empty()) return violations.ToStatus();
  return PageRequest{static_cast<size_t>(*size), *std::move(position)};
}

// Reads ranges of keys one after the other, page by page, and any number of single keys.
//
// Threads: callbacks run on the context's executor.

struct KeyRange {
  kv::ColumnFamily cf = kv::ColumnFamily::kMeta;
  std::string begin, end;
};

// Visits an entry of the range, which it may move from. Returns false to end the reading.
using VisitEntry =
    absl::AnyInvocable<absl::StatusOr<bool>(const KeyRange& range, kv::Entry& entry)>;

// Visits at most `rows_max` rows of each range, and the rest of their page; later rows are left
// out, and `cut` becomes true if it is given. It outlives the reading. Ends with the first error.
void ReadRanges(MasterContext& context, std::vector<KeyRange> ranges, size_t rows_max,
                VisitEntry visit, absl::AnyInvocable<void(absl::Status)> done, bool* cut = nullptr);

// In the order of the keys; more than one read of the store takes are of several snapshots.
using KeyValues = std::vector<std::optional<std::string>>;
void ReadKeys(MasterContext& context, std::vector<kv::Key> keys,
              absl::AnyInvocable<void(absl::StatusOr<KeyValues>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_RANGE_READER_H_
