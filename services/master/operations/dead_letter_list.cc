#include "services/master/operations/dead_letter_list.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/base/uid.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/outcome_codec.h"
#include "services/master/events/event_filter.h"
#include "services/master/requests/list_filter.h"
#include "services/master/requests/row_listing.h"

namespace escapement::master {

absl::StatusOr<StoredDeadLetter> ReadDeadLetter(std::string key, std::string bytes) {
  StoredDeadLetter letter;
  std::optional<DeadLetterName> name = DecodeDeadLetterKey(key);
  if (!name.has_value() || !letter.record.ParseFromString(bytes) ||
      letter.record.uid().size() != Uid::kBytes)
    return BrokenRecord("a dead letter");
  letter.key = std::move(key);
  letter.bytes = std::move(bytes);
  letter.name = *std::move(name);
  return letter;
}

RunName RunOf(const StoredDeadLetter& letter) {
  return {{letter.name.tenant, letter.record.schedule_id()}, letter.record.occurrence()};
}

std::string EventNameOf(const StoredDeadLetter& letter) {
  if (IsOneOff(letter.record))
    return EventName{letter.name.tenant, letter.name.event_id}.ToString();
  return absl::StrCat(RunOf(letter).ToString(), "/events/", letter.record.index());
}

std::string ScheduleNameOf(const StoredDeadLetter& letter) {
  return IsOneOff(letter.record) ? std::string() : RunOf(letter).schedule.ToString();
}

std::string PolicyNameOf(const StoredDeadLetter& letter) {
  const std::string& policy = letter.record.event().throttle().policy_id();
  return policy.empty() ? std::string() : PolicyName{letter.name.tenant, policy}.ToString();
}

std::string ErrorOf(absl::string_view reason) {
  std::string error;
  size_t chars = 0;
  bool in_digits = false;
  for (const char c : CleanText(reason, reason.size())) {
    const bool digit = absl::ascii_isdigit(static_cast<unsigned char>(c));
    if (digit && in_digits) continue;
    in_digits = digit;
    const bool begins = (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    if (begins && ++chars > kLetterErrorCharsMax) break;
    error.push_back(digit ? '#' : c);
  }
  return error;
}

namespace {

std::string ErrorOfShown(const google::protobuf::Message& letter) {
  return ErrorOf(static_cast<const v1::DeadLetter&>(letter).reason());
}

constexpr FilterField kDeadLetterFields[] = {
    {.name = "schedule", .collection = "schedules", .prefix = true},
    {.name = "policy", .collection = "policies", .prefix = true},
    {.name = "event", .prefix = true},
    {.name = "event_id", .prefix = true, .part = true},
    {.name = "reason", .prefix = true, .part = true},
    {.name = "error", .prefix = true, .make = &ErrorOfShown},
    {.name = "create_time"}};

// Only what kDeadLetterFields need.
v1::DeadLetter ShowFilterFields(const StoredDeadLetter& letter) {
  v1::DeadLetter shown;
  shown.set_event(EventNameOf(letter));
  shown.set_event_id(DeliveredEventId(letter.name.event_id, letter.record.event().generation()));
  shown.set_schedule(ScheduleNameOf(letter));
  shown.set_policy(PolicyNameOf(letter));
  SetTimestamp(ToMicros(letter.name.time), *shown.mutable_create_time());
  shown.set_reason(letter.record.reason());
  return shown;
}

}  // namespace

v1::DeadLetter ShowDeadLetter(const StoredDeadLetter& letter, absl::Duration retention) {
  const storage::v1::EventRecord& event = letter.record.event();
  v1::DeadLetter shown = ShowFilterFields(letter);
  shown.set_name(ToString(letter.name));
  SetTimestamp(event.nominal_time_micros(), *shown.mutable_due_time());
  SetTimestamp(ToMicros(letter.name.time + retention), *shown.mutable_expire_time());
  shown.set_attempts(static_cast<int32_t>(event.attempts()));
  shown.set_redrive_count(static_cast<int32_t>(event.redrives()));
  for (const storage::v1::AttemptRecord& attempt : event.tried())
    *shown.add_recent_attempts() = ShowAttempt(attempt);
  return shown;
}

v1::Event ShowRedriven(const StoredDeadLetter& letter, const storage::v1::EventRecord& row) {
  v1::Event event = ShowWaitingEvent(EventNameOf(letter), row, v1::PENDING, nullptr);
  event.set_event_id(letter.name.event_id);
  event.clear_payload();
  return event;
}

absl::StatusOr<DeadLetterSelection> DeadLetterSelection::Read(absl::string_view tenant,
                                                              absl::string_view filter,
                                                              absl::string_view run) {
  ASSIGN_OR_RETURN(ListFilter read,
                   ListFilter::Read<v1::DeadLetter>(filter, tenant, kDeadLetterFields));
  const FilterTimes times = read.TimesOf("create_time");
  DeadLetterSelection selection;
  selection.run_ = std::string(run);
  selection.begin_ = DeadLetterKeyFrom(tenant, times.begin);
  selection.end_ = DeadLetterKeyFrom(tenant, times.end);
  selection.filter_ = std::move(read);
  return selection;
}

bool DeadLetterSelection::Has(const StoredDeadLetter& letter) const {
  if (!run_.empty() && (IsOneOff(letter.record) || RunOf(letter).ToString() != run_)) return false;
  return filter_.always() || filter_.Matches(ShowFilterFields(letter));
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
        ASSIGN_OR_RETURN(const StoredDeadLetter letter,
                         ReadDeadLetter(std::move(row.key), std::move(row.value)));
        if (!selection.Has(letter)) return std::nullopt;
        return ShowDeadLetter(letter, retention);
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
