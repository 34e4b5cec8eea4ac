#include "services/master/operations/dead_letter_list.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/filter_values.h"
#include "services/master/requests/row_listing.h"

namespace escapement::master {

namespace {

constexpr absl::string_view kCreateTime = "create_time";

using TextMaker = std::string (*)(const StoredDeadLetter& letter);

// Null: no such text.
TextMaker TextOf(absl::string_view field) {
  if (field == "schedule") return &ScheduleNameOf;
  if (field == "policy") return &PolicyNameOf;
  if (field == "event") return &EventNameOf;
  if (field == "event_id")
    return [](const StoredDeadLetter& letter) { return letter.name.event_id; };
  if (field == "reason")
    return [](const StoredDeadLetter& letter) { return letter.record.reason(); };
  return nullptr;
}

absl::Status Bind(FilterComparison& comparison, absl::string_view tenant) {
  if (comparison.field == kCreateTime) return BindTime(comparison);
  if (TextOf(comparison.field) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown field ", comparison.field,
                     "; use schedule, policy, event, event_id, reason or create_time"));
  }
  if (comparison.field == "reason" && comparison.op == FilterOperator::kHas)
    return absl::OkStatus();
  // An empty value stays: it means none.
  if (!comparison.value.empty() && comparison.field == "schedule")
    comparison.value = FullNameOf(tenant, "schedules", comparison.value);
  if (!comparison.value.empty() && comparison.field == "policy")
    comparison.value = FullNameOf(tenant, "policies", comparison.value);
  return RequireEquality(comparison);
}

bool Holds(const StoredDeadLetter& letter, const FilterComparison& comparison) {
  if (comparison.field == kCreateTime)
    return Compares(OrderOf(letter.name.time, comparison.time), comparison.op);
  const std::string text = TextOf(comparison.field)(letter);
  if (comparison.op == FilterOperator::kHas) return absl::StrContains(text, comparison.value);
  return NameMatches(text, comparison.value) == (comparison.op != FilterOperator::kNotEqual);
}

}  // namespace

absl::StatusOr<DeadLetterFilter> DeadLetterFilter::Read(absl::string_view text,
                                                        absl::string_view tenant) {
  absl::StatusOr<Filter> filter =
      ReadFilter(text, [&](FilterComparison& comparison) { return Bind(comparison, tenant); });
  if (!filter.ok()) return filter.status();
  DeadLetterFilter read;
  read.times_ = FilterTimesOf(*filter, kCreateTime);
  read.filter_ = *std::move(filter);
  return read;
}

bool DeadLetterFilter::Matches(const StoredDeadLetter& letter) const {
  return FilterHolds(filter_,
                     [&](const FilterComparison& comparison) { return Holds(letter, comparison); });
}

absl::StatusOr<DeadLetterSelection> DeadLetterSelection::Read(absl::string_view tenant,
                                                              absl::string_view filter,
                                                              absl::string_view run) {
  absl::StatusOr<DeadLetterFilter> read = DeadLetterFilter::Read(filter, tenant);
  if (!read.ok()) return read.status();
  DeadLetterSelection selection;
  selection.run_ = std::string(run);
  selection.begin_ = DeadLetterKeyFrom(tenant, read->begin());
  selection.end_ = DeadLetterKeyFrom(tenant, read->end());
  selection.filter_ = *std::move(read);
  return selection;
}

bool DeadLetterSelection::Has(const StoredDeadLetter& letter) const {
  if (!run_.empty() && (IsOneOff(letter.record) || RunOf(letter).ToString() != run_)) return false;
  return filter_.Matches(letter);
}

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
