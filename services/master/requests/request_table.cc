#include "services/master/requests/request_table.h"

#include <utility>

#include "common/auth/audit_log.h"
#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/storage/name_tables.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"

namespace escapement::master {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The text of a field; "" if the message has no such text.
std::string TextOf(const Message& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return {};
  return message.GetReflection()->GetString(message, field);
}

// The name of the resource that the request has, as `event.name`; "" if it has none.
std::string NameOfResourceIn(const Message& request) {
  std::vector<const FieldDescriptor*> fields;
  request.GetReflection()->ListFields(request, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    std::string name = TextOf(request.GetReflection()->GetMessage(request, field), "name");
    if (!name.empty()) return name;
  }
  return {};
}

uint64_t VersionOf(const Message& message) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName("version");
  if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_INT64) return 0;
  return static_cast<uint64_t>(message.GetReflection()->GetInt64(message, field));
}

}  // namespace

const Caller& PlatformCaller() {
  static const auto* const caller = new Caller{"platform", v1::Access::SERVICE};
  return *caller;
}

RequestMark::RequestMark(absl::string_view tenant, absl::string_view method,
                         absl::string_view request_id, const Message& request, const Caller& caller)
    : tenant_(tenant), method_(method) {
  // The answer may know the resource better, for example its id if the server makes it.
  std::string resource = TextOf(request, "name");
  if (resource.empty()) resource = TextOf(request, "parent");
  if (resource.empty()) resource = NameOfResourceIn(request);
  audit_ = auth::AuditRecordOf(caller, method, resource, request_id);
  if (request_id.empty()) return;
  key_ = RequestKey(tenant, request_id);
  request_hash_ = StableHash128(SerializeDeterministically(request));
}

absl::StatusOr<bool> RequestMark::Replay(const std::optional<std::string>& row,
                                         Message* response) const {
  if (!active() || !row.has_value()) return false;
  storage::v1::RequestRecord record;
  if (!record.ParseFromString(*row)) return BrokenRecord("a request's answer");
  if (record.method() != method_ ||
      absl::string_view(record.request_hash()) != request_hash_.bytes()) {
    return RequestIdReused();
  }
  if (!response->ParseFromString(record.response())) return BrokenRecord("a request's answer");
  return true;
}

void RequestMark::AddTo(const Message& response, absl::Time now, uint64_t version_before,
                        kv::Group& group, uint64_t nonce) const {
  if (method_.empty()) return;
  storage::v1::AuditRecord audit = audit_;
  if (std::string resource = TextOf(response, "name"); !resource.empty())
    audit.set_resource(std::move(resource));
  audit.set_version_before(version_before);
  audit.set_version_after(VersionOf(response));
  auth::AddAuditRow(tenant_, std::move(audit), now, nonce, group);
  if (!active()) return;
  storage::v1::RequestRecord record;
  record.set_method(method_);
  record.set_request_hash(std::string(request_hash_.bytes()));
  record.set_response(response.SerializeAsString());
  record.set_time_micros(ToMicros(now));
  group.conditions.push_back(
      {.cf = kv::ColumnFamily::kRequests, .key = key_, .kind = kv::Condition::Kind::kAbsent});
  group.mutations.push_back(
      {.cf = kv::ColumnFamily::kRequests, .key = key_, .value = record.SerializeAsString()});
}

void RequestSweepLoop::Start() {
  position_.clear();
  Step();
}

void RequestSweepLoop::StartLater() {
  const bool many = std::exchange(many_, false);
  context_.executor->PostAfter(many ? kRequestSweepEveryOfMany : kRequestSweepEvery,
                               [this] { Start(); });
}

void RequestSweepLoop::Step() {
  kv::ScanRequest scan;
  scan.cf = kv::ColumnFamily::kRequests;
  scan.begin = position_;
  scan.limit = kRequestSweepRowsMax;
  scan.bytes_max = kRequestSweepBytesMax;
  context_.client.Scan(std::move(scan), context_.executor,
                       [this](absl::StatusOr<kv::ScanResult> page) {
                         if (!page.ok()) return StartLater();
                         OnPage(*std::move(page));
                       });
}

void RequestSweepLoop::OnPage(kv::ScanResult page) {
  const int64_t oldest_kept = ToMicros(context_.client.NowLow() - kRequestRetention);
  kv::Commit commit;
  for (const kv::Entry& entry : page.entries) {
    storage::v1::RequestRecord record;
    if (record.ParseFromString(entry.value) && record.time_micros() >= oldest_kept) continue;
    // Deletes only this very record: the id may be in use again.
    kv::Group& group = commit.groups.emplace_back();
    group.conditions.push_back({.cf = kv::ColumnFamily::kRequests,
                                .key = entry.key,
                                .kind = kv::Condition::Kind::kUnchangedSince,
                                .since = page.seq});
    group.mutations.push_back(
        {.cf = kv::ColumnFamily::kRequests, .kind = kv::Mutation::Kind::kDelete, .key = entry.key});
  }
  position_ =
      page.more && !page.entries.empty() ? KeyAfter(page.entries.back().key) : std::string();
  if (commit.groups.empty()) return GoOn();
  context_.client.CommitAsync(std::move(commit), context_.executor,
                              [this](absl::StatusOr<kv::CommitResult> result) {
                                if (!result.ok()) return StartLater();
                                for (const kv::Verdict& verdict : result->verdicts)
                                  context_.metrics.requests_swept.Increment(verdict.applied);
                                GoOn();
                              });
}

void RequestSweepLoop::GoOn() {
  if (position_.empty()) return StartLater();
  many_ = true;
  context_.executor->PostAfter(kRequestSweepPause, [this] { Step(); });
}

}  // namespace escapement::master
