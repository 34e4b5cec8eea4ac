#include "services/master/schedules/schedule_versions.h"

#include <google/protobuf/util/message_differencer.h>

#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "common/base/proto_time.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/schedules/schedule_reader.h"

namespace escapement::master {
namespace {

using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;
using storage::v1::DefinitionRecord;

// Collects the top-level fields, by their index, that two messages differ by.
class FieldsReporter final : public MessageDifferencer::Reporter {
 public:
  using Path = std::vector<MessageDifferencer::SpecificField>;
  explicit FieldsReporter(std::set<int>& fields) : fields_(fields) {}

  void ReportAdded(const Message&, const Message&, const Path& path) override { Add(path); }
  void ReportDeleted(const Message&, const Message&, const Path& path) override { Add(path); }
  void ReportModified(const Message&, const Message&, const Path& path) override { Add(path); }

 private:
  void Add(const Path& path) { fields_.insert(path.front().field->index()); }

  std::set<int>& fields_;
};

// The parts of a schedule that its definition has.
v1::Schedule ShowDefinition(const DefinitionRecord& definition) {
  return ShowSchedule({storage::v1::ScheduleRecord(), storage::v1::StateRecord(), definition},
                      std::nullopt);
}

class VersionsRead : public std::enable_shared_from_this<VersionsRead> {
 public:
  VersionsRead(MasterContext& context, ScheduleName name,
               Done<v1::ListScheduleVersionsResponse> done)
      : context_(context), name_(std::move(name)), done_(std::move(done)) {}

  void Start() {
    ReadSchedule(context_, name_,
                 [self = shared_from_this()](const absl::StatusOr<StoredSchedule>& stored) {
                   if (!stored.ok()) return self->done_(stored.status());
                   self->begin_ = DefinitionKey(stored->uid, 1);
                   self->Step(DefinitionKey(stored->uid, stored->state.version() + 1));
                 });
  }

 private:
  void Step(std::string end) {
    kv::ScanRequest scan;
    scan.cf = kv::ColumnFamily::kDefinitions;
    scan.begin = begin_;
    scan.end = std::move(end);
    scan.reverse = true;
    scan.limit = kListedVersionsAtOnce;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> page) {
                           if (!page.ok()) return self->done_(StoreFailed(page.status()));
                           self->OnPage(*std::move(page));
                         });
  }

  void OnPage(kv::ScanResult page) {
    for (const kv::Entry& row : page.entries) {
      DefinitionRecord record;
      if (!record.ParseFromString(row.value)) return done_(BrokenRecord(name_.ToString()));
      if (newer_.has_value()) AddNewer(ChangedFields(record, *newer_));
      if (response_.versions_size() == kListedVersionsMax) return done_(std::move(response_));
      newer_ = std::move(record);
    }
    if (page.more && !page.entries.empty()) return Step(std::move(page.entries.back().key));
    if (newer_.has_value()) AddNewer({});
    done_(std::move(response_));
  }

  void AddNewer(std::vector<std::string> changed) {
    v1::ScheduleVersion& version = *response_.add_versions();
    version.set_version(static_cast<int64_t>(newer_->version()));
    SetTimestamp(newer_->create_time_micros(), *version.mutable_create_time());
    for (std::string& field : changed) version.add_changed_fields(std::move(field));
  }

  MasterContext& context_;
  const ScheduleName name_;
  Done<v1::ListScheduleVersionsResponse> done_;
  std::string begin_;
  std::optional<DefinitionRecord> newer_;  // the last one read, not in the response yet
  v1::ListScheduleVersionsResponse response_;
};

}  // namespace

std::vector<std::string> ChangedFields(const DefinitionRecord& before,
                                       const DefinitionRecord& after) {
  std::set<int> fields;
  FieldsReporter reporter(fields);
  MessageDifferencer differencer;
  differencer.ReportDifferencesTo(&reporter);
  differencer.Compare(ShowDefinition(before), ShowDefinition(after));
  const google::protobuf::Descriptor& schedule = *v1::Schedule::descriptor();
  if (!MessageDifferencer::Equals(before.timing().calendar().days(),
                                  after.timing().calendar().days()))
    fields.insert(schedule.FindFieldByName("calendar")->index());
  std::vector<std::string> names;
  for (const int field : fields) names.push_back(schedule.field(field)->name());
  return names;
}

void ListVersionsOf(MasterContext& context, ScheduleName name,
                    Done<v1::ListScheduleVersionsResponse> done) {
  std::make_shared<VersionsRead>(context, std::move(name), std::move(done))->Start();
}

}  // namespace escapement::master
