#include "services/master/requests/range_reader.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "common/runtime/perturb.h"
#include "common/status/errors.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"

namespace escapement::master {

absl::StatusOr<bool> ReadDescending(absl::string_view order_by, absl::string_view field,
                                    bool unset) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(order_by, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words.empty()) return unset;
  const bool known =
      words[0] == field &&
      (words.size() == 1 || (words.size() == 2 && (words[1] == "desc" || words[1] == "asc")));
  if (!known) {
    return InvalidField("order_by",
                        absl::StrCat("must be \"", field, "\" or \"", field, " desc\""));
  }
  return words.back() == "desc";
}

namespace {

uint64_t CheckOf(absl::string_view list, absl::string_view position) {
  return StableHash64(KeyWriter().Text(list).Raw(position).Take());
}

}  // namespace

std::string EncodePageToken(absl::string_view list, absl::string_view position) {
  return absl::WebSafeBase64Escape(KeyWriter().U64(CheckOf(list, position)).Raw(position).Take());
}

absl::StatusOr<std::string> DecodePageToken(absl::string_view list, absl::string_view token) {
  if (token.empty()) return std::string();
  std::string bytes;
  if (absl::WebSafeBase64Unescape(token, &bytes)) {
    KeyReader reader(bytes);
    const uint64_t check = reader.U64();
    if (reader.ok()) {
      std::string position(reader.Rest());
      // Unescaping also takes padding, blanks and unused bits, so only the token's own text counts.
      if (check == CheckOf(list, position) && token == EncodePageToken(list, position))
        return position;
    }
  }
  return InvalidField("page_token",
                      "does not belong to this list with these arguments; start again without it");
}

absl::StatusOr<int32_t> ReadPageSize(int32_t page_size) {
  if (page_size < 0) return InvalidField("page_size", "must not be negative");
  return page_size == 0 ? kPageSizeDefault : std::min(page_size, kPageSizeMax);
}

namespace {

class Reading : public std::enable_shared_from_this<Reading> {
 public:
  using Ended = absl::AnyInvocable<void(absl::Status)>;
  Reading(MasterContext& context, std::vector<KeyRange> ranges, size_t rows_max, VisitEntry visit,
          Ended done, bool* cut)
      : context_(context),
        ranges_(std::move(ranges)),
        rows_max_(rows_max),
        visit_(std::move(visit)),
        done_(std::move(done)),
        cut_(cut) {}

  void NextRange() {
    if (range_ == ranges_.size()) return done_(absl::OkStatus());
    rows_read_ = 0;
    Scan(ranges_[range_].begin);
  }

 private:
  void Scan(std::string begin) {
    kv::ScanRequest scan;
    scan.cf = ranges_[range_].cf;
    scan.begin = std::move(begin);
    scan.end = ranges_[range_].end;
    scan.limit = Perturb(context_.runtime, Site::kMasterScanOfOne) ? 1 : 10'000;
    scan.bytes_max = 4 << 20;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> page) {
                           self->OnPage(std::move(page));
                         });
  }

  void OnPage(absl::StatusOr<kv::ScanResult> page) {
    if (!page.ok()) return done_(StoreFailed(page.status()));
    const bool more = page->more && !page->entries.empty();
    std::string next = more ? KeyAfter(page->entries.back().key) : std::string();
    rows_read_ += page->entries.size();
    for (kv::Entry& entry : page->entries) {
      const absl::StatusOr<bool> go_on = visit_(ranges_[range_], entry);
      if (!go_on.ok() || !*go_on) return done_(go_on.status());
    }
    if (more && rows_read_ < rows_max_) return Scan(std::move(next));
    if (more && cut_ != nullptr) *cut_ = true;
    ++range_;
    NextRange();
  }

  MasterContext& context_;
  const std::vector<KeyRange> ranges_;
  const size_t rows_max_;
  VisitEntry visit_;
  Ended done_;
  bool* const cut_;  // or null
  size_t range_ = 0;
  size_t rows_read_ = 0;  // rows of this range
};

class KeyReading : public std::enable_shared_from_this<KeyReading> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<KeyValues>)>;
  KeyReading(MasterContext& context, std::vector<kv::Key> keys, Read done)
      : context_(context), keys_(std::move(keys)), done_(std::move(done)) {}

  void Next() {
    if (values_.size() == keys_.size()) return done_(std::move(values_));
    const auto begin = keys_.begin() + static_cast<ptrdiff_t>(values_.size());
    const size_t count = std::min(keys_.size() - values_.size(), kv::kMultiGetKeysMax);
    context_.client.MultiGet(std::vector<kv::Key>(begin, begin + static_cast<ptrdiff_t>(count)),
                             context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               if (!result.ok()) return self->done_(StoreFailed(result.status()));
                               for (auto& value : result->values)
                                 self->values_.push_back(std::move(value));
                               self->Next();
                             });
  }

 private:
  MasterContext& context_;
  const std::vector<kv::Key> keys_;
  Read done_;
  KeyValues values_;
};

}  // namespace

void ReadKeys(MasterContext& context, std::vector<kv::Key> keys,
              absl::AnyInvocable<void(absl::StatusOr<KeyValues>)> done) {
  std::make_shared<KeyReading>(context, std::move(keys), std::move(done))->Next();
}

void ReadRanges(MasterContext& context, std::vector<KeyRange> ranges, size_t rows_max,
                VisitEntry visit, absl::AnyInvocable<void(absl::Status)> done, bool* cut) {
  std::make_shared<Reading>(context, std::move(ranges), rows_max, std::move(visit), std::move(done),
                            cut)
      ->NextRange();
}

}  // namespace escapement::master
