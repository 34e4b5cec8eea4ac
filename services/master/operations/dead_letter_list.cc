#include "services/master/operations/dead_letter_list.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/key_codec.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/row_listing.h"

namespace escapement::master {
namespace {

// Dead letters that are read together.
constexpr size_t kLettersAtOnce = 1000;

class Counting : public std::enable_shared_from_this<Counting> {
 public:
  using Counted = absl::AnyInvocable<void(absl::StatusOr<DeadLetterCount>)>;
  Counting(MasterContext& context, DeadLetterSelection selection, Counted done)
      : context_(context), selection_(std::move(selection)), done_(std::move(done)) {}

  void Step(std::string begin) {
    kv::ScanRequest scan;
    scan.cf = kv::ColumnFamily::kDeadLetters;
    scan.begin = std::move(begin);
    scan.end = selection_.end();
    scan.limit = static_cast<uint32_t>(std::min(kLettersAtOnce, kDeadLetterCountRowsMax - rows_));
    if (scan.begin >= scan.end) scan.end = KeyAfter(scan.begin);  // only the store's time
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> page) {
                           if (!page.ok()) return self->done_(StoreFailed(page.status()));
                           self->OnPage(*std::move(page));
                         });
  }

 private:
  void OnPage(kv::ScanResult page) {
    found_.store_time = page.store_time;
    std::string next;
    if (!page.entries.empty()) next = KeyAfter(page.entries.back().key);
    for (kv::Entry& row : page.entries) {
      ++rows_;
      bytes_ += row.value.size();
      const auto letter = ReadDeadLetter(std::move(row.key), std::move(row.value));
      // One that cannot be read is left out: it must not keep the others from their operation.
      if (!letter.ok() || !selection_.Has(*letter)) continue;
      ++found_.count;
      if (found_.sample.size() < kPurgeSampleMax) found_.sample.push_back(ToString(letter->name));
    }
    found_.more =
        page.more && (rows_ >= kDeadLetterCountRowsMax || bytes_ >= kDeadLetterCountBytesMax);
    if (!page.more || found_.more) return done_(std::move(found_));
    Step(std::move(next));
  }

  MasterContext& context_;
  const DeadLetterSelection selection_;
  Counted done_;
  size_t rows_ = 0;
  size_t bytes_ = 0;
  DeadLetterCount found_;
};

}  // namespace

void ListDeadLettersOf(MasterContext& context, DeadLetterListQuery query,
                       Done<v1::ListDeadLettersResponse> done) {
  ListRows(
      context,
      {.cf = kv::ColumnFamily::kDeadLetters,
       .begin = std::move(query.begin),
       .end = std::move(query.end),
       .backwards = query.newest_first,
       .page_size = query.page_size,
       .list = std::move(query.list),
       .bytes_max = kListBytesMax},
      &v1::ListDeadLettersResponse::mutable_dead_letters,
      [selection = std::move(query.selection), retention = query.retention](
          kv::Entry row) -> absl::StatusOr<std::optional<v1::DeadLetter>> {
        const absl::StatusOr<StoredDeadLetter> letter =
            ReadDeadLetter(std::move(row.key), std::move(row.value));
        if (!letter.ok()) return letter.status();
        if (!selection.Has(*letter)) return std::nullopt;
        return ShowDeadLetter(*letter, retention);
      },
      std::move(done));
}

void CountDeadLetters(MasterContext& context, DeadLetterSelection selection,
                      absl::AnyInvocable<void(absl::StatusOr<DeadLetterCount>)> done) {
  std::string begin = selection.begin();
  std::make_shared<Counting>(context, std::move(selection), std::move(done))
      ->Step(std::move(begin));
}

}  // namespace escapement::master
