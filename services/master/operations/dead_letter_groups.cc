#include "services/master/operations/dead_letter_groups.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/filter/filter.h"
#include "common/status/errors.h"
#include "services/master/base/errors.h"

namespace escapement::master {
namespace {

std::string QuoteForFilter(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted.push_back('\\');
    quoted.push_back(c);
  }
  quoted.push_back('"');
  return quoted;
}

// A value that matches only this text: without the backslash, a last * would stand for any rest.
std::string WholeText(absl::string_view text) {
  if (!absl::EndsWith(text, "*")) return std::string(text);
  return absl::StrCat(text.substr(0, text.size() - 1), "\\*");
}

std::string TimeForFilter(absl::Time time) {
  return absl::FormatTime("\"%Y-%m-%dT%H:%M:%E*SZ\"", time, absl::UTCTimeZone());
}

std::string FilterOfGroup(absl::string_view filter, absl::string_view schedule_id,
                          absl::string_view error, absl::Time start, absl::Time end) {
  std::string text;
  if (!absl::StripAsciiWhitespace(filter).empty()) text = absl::StrCat("(", filter, ") AND ");
  absl::StrAppend(&text, "schedule = ", QuoteForFilter(schedule_id),
                  " AND error = ", QuoteForFilter(WholeText(error)),
                  " AND create_time >= ", TimeForFilter(start), " AND create_time < ",
                  TimeForFilter(end));
  return text;
}

// The longest conditions that a group can have.
std::string LongestFilterOfGroup(absl::string_view filter) {
  constexpr absl::string_view kLongestCharacter = "\U0001F30D";
  std::string error;
  for (size_t i = 0; i < kLetterErrorCharsMax; ++i) absl::StrAppend(&error, kLongestCharacter);
  const absl::Time time = absl::FromUnixSeconds(0) + absl::Microseconds(1);
  return FilterOfGroup(filter, std::string(kResourceIdBytesMax, 's'), error, time, time);
}

class GroupsRead : public std::enable_shared_from_this<GroupsRead> {
 public:
  GroupsRead(MasterContext& context, LetterGroupsQuery query,
             Done<v1::ListDeadLetterGroupsResponse> done)
      : context_(context),
        query_(std::move(query)),
        begin_(std::max(query_.selection.begin(), DeadLetterKeyFrom(query_.tenant, query_.start))),
        done_(std::move(done)),
        groups_(query_.start, query_.end) {}

  void Start() {
    Step(std::min(query_.selection.end(), DeadLetterKeyFrom(query_.tenant, query_.end)));
  }

 private:
  void Step(std::string end) {
    if (begin_ >= end) return Answer(/*complete=*/true);
    kv::ScanRequest scan;
    scan.cf = kv::ColumnFamily::kDeadLetters;
    scan.begin = begin_;
    scan.end = std::move(end);
    scan.reverse = true;
    scan.limit = static_cast<uint32_t>(
        std::min<size_t>(kGroupedLettersAtOnce, kDeadLetterCountRowsMax - rows_));
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> page) {
                           if (!page.ok()) return self->done_(StoreFailed(page.status()));
                           self->OnPage(*std::move(page));
                         });
  }

  void OnPage(kv::ScanResult page) {
    std::string end;
    if (!page.entries.empty()) end = page.entries.back().key;
    for (kv::Entry& row : page.entries) {
      ++rows_;
      bytes_ += row.value.size();
      const auto letter = ReadDeadLetter(std::move(row.key), std::move(row.value));
      // One that cannot be read is left out: it must not hide the others.
      if (letter.ok() && query_.selection.Has(*letter)) groups_.Add(*letter);
    }
    if (!page.more) return Answer(/*complete=*/true);
    if (rows_ >= kDeadLetterCountRowsMax || bytes_ >= kDeadLetterCountBytesMax)
      return Answer(/*complete=*/false);
    Step(std::move(end));
  }

  void Answer(bool complete) { done_(groups_.Answer(query_, complete)); }

  MasterContext& context_;
  const LetterGroupsQuery query_;
  const std::string begin_;
  Done<v1::ListDeadLetterGroupsResponse> done_;
  LetterGroups groups_;
  size_t rows_ = 0;
  size_t bytes_ = 0;
};

void ReadGroupsTime(const v1::ListDeadLetterGroupsRequest& request, absl::Time now,
                    LetterGroupsQuery& query, FieldViolations& violations) {
  const auto read = [&](bool given, const google::protobuf::Timestamp& time, const char* field,
                        absl::Time unset) {
    if (!given) return unset;
    const std::optional<int64_t> micros = TimestampMicros(time);
    if (!micros.has_value()) violations.Add(field, "is not a valid time in the years 1 to 9999");
    return FromMicros(micros.value_or(0));
  };
  query.end = read(request.has_end_time(), request.end_time(), "end_time", now);
  // Nothing failed before 1970.
  query.start = read(request.has_start_time(), request.start_time(), "start_time",
                     std::max(query.end - kLetterGroupsDefault, absl::UnixEpoch()));
  if (violations.empty() && query.end <= query.start)
    violations.Add("end_time", "must be after start_time");
}

}  // namespace

absl::StatusOr<LetterGroupsQuery> ReadLetterGroups(const v1::ListDeadLetterGroupsRequest& request,
                                                   absl::string_view tenant, absl::Time now) {
  LetterGroupsQuery query;
  query.tenant = std::string(tenant);
  query.filter = request.filter();
  FieldViolations violations;
  ReadGroupsTime(request, now, query, violations);
  absl::StatusOr<DeadLetterSelection> selection =
      DeadLetterSelection::Read(tenant, request.filter(), "");
  violations.AddStatus("", selection.status());
  if (selection.ok() && !ParseFilter(LongestFilterOfGroup(request.filter())).ok()) {
    violations.Add("filter",
                   "is too long: the conditions of each group are added to it, and both together "
                   "must be a filter");
  }
  if (!violations.empty()) return violations.ToStatus();
  query.selection = *std::move(selection);
  return query;
}

void LetterGroups::Add(const StoredDeadLetter& letter) {
  const std::string name = ScheduleNameOf(letter);
  // The id is unknown if the version's record is gone; the filter then has the name.
  const std::string& id = letter.record.schedule_id();
  Key key(name.empty() || id.empty() ? name : id, ErrorOf(letter.record.reason()));
  auto found = groups_.find(key);
  if (found == groups_.end()) {
    if (groups_.size() >= kLetterGroupsCounted) {
      left_out_ = true;
      return;
    }
    found = groups_.emplace(std::move(key), Group()).first;
    found->second.last = letter.name.time;
    found->second.latest = ToString(letter.name);
    found->second.schedule = name;
  }
  Group& group = found->second;
  ++group.count;
  group.first = letter.name.time;
  const int64_t part = ToMicros(letter.name.time) - ToMicros(start_);
  const int64_t all = ToMicros(end_) - ToMicros(start_);
  ++group.parts[static_cast<size_t>(part * kLetterGroupParts / all)];
}

v1::ListDeadLetterGroupsResponse LetterGroups::Answer(const LetterGroupsQuery& query,
                                                      bool complete) const {
  std::vector<const std::pair<const Key, Group>*> largest;
  for (const auto& group : groups_) largest.push_back(&group);
  const size_t shown = std::min(largest.size(), kLetterGroupsMax);
  std::partial_sort(largest.begin(), largest.begin() + static_cast<ptrdiff_t>(shown), largest.end(),
                    [](const auto* a, const auto* b) {
                      return std::tie(b->second.count, b->second.last, a->first) <
                             std::tie(a->second.count, a->second.last, b->first);
                    });
  v1::ListDeadLetterGroupsResponse response;
  for (size_t i = 0; i < shown; ++i)
    Show(query, largest[i]->first, largest[i]->second, *response.add_groups());
  response.set_more(!complete || left_out_ || shown < largest.size());
  SetTimestamp(ToMicros(start_), *response.mutable_start_time());
  SetTimestamp(ToMicros(end_), *response.mutable_end_time());
  return response;
}

void LetterGroups::Show(const LetterGroupsQuery& query, const Key& key, const Group& group,
                        v1::DeadLetterGroup& shown) const {
  const auto& [schedule, error] = key;
  shown.set_schedule(group.schedule);
  shown.set_error(error);
  shown.set_count(group.count);
  SetTimestamp(ToMicros(group.first), *shown.mutable_first_time());
  SetTimestamp(ToMicros(group.last), *shown.mutable_last_time());
  for (const uint32_t part : group.parts) shown.add_counts(part);
  shown.set_latest(group.latest);
  shown.set_filter(FilterOfGroup(query.filter, schedule, error, start_, end_));
}

void ListDeadLetterGroupsOf(MasterContext& context, LetterGroupsQuery query,
                            Done<v1::ListDeadLetterGroupsResponse> done) {
  std::make_shared<GroupsRead>(context, std::move(query), std::move(done))->Start();
}

}  // namespace escapement::master
