#include "services/master/operations/dead_letter_service.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/delivery_codec.h"
#include "services/master/operations/dead_letter_groups.h"
#include "services/master/operations/dead_letter_list.h"
#include "services/master/operations/operation_service.h"
#include "services/master/operations/redrive_batch.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/request_reader.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"
#include "services/master/schedules/schedule_reader.h"

namespace escapement::master {

namespace {

using storage::v1::OperationRecord;

void CheckRate(double max_per_second, FieldViolations& violations) {
  // Not a number is refused, too.
  if (max_per_second == 0 ||
      (max_per_second >= kRedriveRateMin && max_per_second <= kRedriveRateMax))
    return;
  violations.Add("max_per_second", absl::StrCat("must be 0 or ", kRedriveRateMin, " to ",
                                                static_cast<int64_t>(kRedriveRateMax)));
}

std::unique_ptr<google::protobuf::Message> RespondToPurge(v1::Operation operation) {
  auto response = std::make_unique<v1::PurgeDeadLettersResponse>();
  *response->mutable_operation() = std::move(operation);
  return response;
}

// Begins an operation on the dead letters of a selection, which it counts before. A repeated
// request has its first answer at once.
template <typename Response>
class Beginning : public std::enable_shared_from_this<Beginning<Response>> {
 public:
  Beginning(MasterContext& context, const OperationLoop& loop, DeadLetterSelection selection,
            OperationRequest request, Done<Response> done)
      : context_(context),
        loop_(loop),
        selection_(std::move(selection)),
        request_(std::move(request)),
        done_(std::move(done)) {
    request_.response = std::make_unique<Response>();
  }

  void Start() {
    AnswerOr(context_, request_.mark, done_, [self = this->shared_from_this()] { self->Count(); });
  }

  // NOT_FOUND if there is no such schedule.
  void StartIfThereIs(ScheduleName name) {
    AnswerOr(context_, request_.mark, done_,
             [self = this->shared_from_this(), name = std::move(name)]() mutable {
               ReadSchedule(self->context_, std::move(name),
                            [self](const absl::StatusOr<StoredSchedule>& schedule) {
                              if (!schedule.ok()) return self->done_(schedule.status());
                              self->Count();
                            });
             });
  }

 private:
  void Count() {
    CountDeadLetters(context_, std::move(selection_),
                     [self = this->shared_from_this()](absl::StatusOr<DeadLetterCount> count) {
                       if (!count.ok()) return self->done_(count.status());
                       self->OnCounted(*count);
                     });
  }
  void OnCounted(const DeadLetterCount& count) {
    request_.operation.found = count.count;
    request_.operation.time = count.store_time;
    BeginOperation(context_, loop_, std::move(request_), AsAnswer(std::move(done_)));
  }

  MasterContext& context_;
  const OperationLoop& loop_;
  DeadLetterSelection selection_;
  OperationRequest request_;
  Done<Response> done_;
};

template <typename Response>
std::shared_ptr<Beginning<Response>> NewBeginning(MasterContext& context, const OperationLoop& loop,
                                                  DeadLetterSelection selection,
                                                  OperationRequest request, Done<Response> done) {
  return std::make_shared<Beginning<Response>>(context, loop, std::move(selection),
                                               std::move(request), std::move(done));
}

}  // namespace

void DeadLetterService::ListDeadLetters(v1::ListDeadLettersRequest request,
                                        Done<v1::ListDeadLettersResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  DeadLetterListQuery query;
  query.list =
      absl::StrCat("ListDeadLetters ", *tenant, " ", request.order_by(), " ", request.filter());
  const absl::StatusOr<int32_t> size = ReadPageSize(request.page_size());
  absl::StatusOr<std::string> position = DecodePageToken(query.list, request.page_token());
  const absl::StatusOr<bool> newest_first =
      ReadDescending(request.order_by(), "create_time", /*unset=*/true);
  absl::StatusOr<DeadLetterSelection> selection =
      DeadLetterSelection::Read(*tenant, request.filter(), "");
  FieldViolations violations;
  violations.AddStatus("", size.status());
  violations.AddStatus("", position.status());
  violations.AddStatus("", newest_first.status());
  violations.AddStatus("", selection.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  query.newest_first = *newest_first;
  query.begin = selection->begin();
  query.end = selection->end();
  if (!position->empty()) (*newest_first ? query.end : query.begin) = *std::move(position);
  query.page_size = static_cast<size_t>(*size);
  query.retention = retention_;
  query.selection = *std::move(selection);
  ListDeadLettersOf(context_, std::move(query), std::move(done));
}

void DeadLetterService::ListDeadLetterGroups(v1::ListDeadLetterGroupsRequest request,
                                             Done<v1::ListDeadLetterGroupsResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  absl::StatusOr<LetterGroupsQuery> query =
      ReadLetterGroups(request, *tenant, context_.client.NowLow());
  if (!query.ok()) return context_.Refuse(query.status(), std::move(done));
  if (groupings_.fetch_add(1) >= kLetterGroupingsAtOnceMax) {
    --groupings_;
    return context_.Refuse(TooManyGroupings(), std::move(done));
  }
  ListDeadLetterGroupsOf(context_, *std::move(query),
                         [this, done = std::move(done)](
                             absl::StatusOr<v1::ListDeadLetterGroupsResponse> answer) mutable {
                           --groupings_;
                           done(std::move(answer));
                         });
}

void DeadLetterService::GetDeadLetter(v1::GetDeadLetterRequest request, Done<v1::DeadLetter> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<DeadLetterName> name = ParseDeadLetterName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  std::string key = EncodeDeadLetterKey(*name);
  context_.client.MultiGet({{kv::ColumnFamily::kDeadLetters, key}}, context_.executor,
                           [name = ToString(*name), key, retention = retention_,
                            done = std::move(done)](absl::StatusOr<kv::GetResult> result) mutable {
                             if (!result.ok()) return done(StoreFailed(result.status()));
                             if (!result->values[0].has_value()) return done(NotFound(name));
                             const auto letter =
                                 ReadDeadLetter(std::move(key), *std::move(result->values[0]));
                             if (!letter.ok()) return done(letter.status());
                             v1::DeadLetter shown = ShowDeadLetter(*letter, retention);
                             shown.set_payload(letter->record.event().payload());
                             done(std::move(shown));
                           });
}

void DeadLetterService::RedriveDeadLetter(v1::RedriveDeadLetterRequest request,
                                          Done<v1::Event> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<DeadLetterName> name = ParseDeadLetterName(request.name(), "name");
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  violations.AddStatus("", name.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  RequestMark mark = MarkOf(name->tenant, "RedriveDeadLetter", request, done);
  RedriveOne(context_, *std::move(name), std::move(mark), request.validate_only(), std::move(done));
}

void DeadLetterService::RedriveDeadLetters(v1::RedriveDeadLettersRequest request,
                                           Done<v1::Operation> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  CheckRate(request.max_per_second(), violations);
  absl::StatusOr<DeadLetterSelection> selection =
      DeadLetterSelection::Read(*tenant, request.filter(), "");
  violations.AddStatus("", selection.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  OperationRequest operation;
  operation.operation = {.tenant = *tenant,
                         .kind = OperationRecord::REDRIVE,
                         .filter = request.filter(),
                         .max_per_second = request.max_per_second()};
  operation.mark = MarkOf(*tenant, "RedriveDeadLetters", request, done);
  operation.validate_only = request.validate_only();
  NewBeginning(context_, loop_, *std::move(selection), std::move(operation), std::move(done))
      ->Start();
}

void DeadLetterService::RedriveRun(v1::RedriveRunRequest request, Done<v1::Operation> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<RunName> name = ParseRunName(request.name(), "name");
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  CheckRate(request.max_per_second(), violations);
  violations.AddStatus("", name.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  const std::string& tenant = name->schedule.tenant;
  OperationRequest operation;
  operation.operation = {.tenant = tenant,
                         .kind = OperationRecord::REDRIVE,
                         .run = name->ToString(),
                         .max_per_second = request.max_per_second()};
  operation.mark = MarkOf(tenant, "RedriveRun", request, done);
  operation.validate_only = request.validate_only();
  DeadLetterSelection selection = DeadLetterSelection::Read(tenant, "", name->ToString()).value();
  NewBeginning(context_, loop_, std::move(selection), std::move(operation), std::move(done))
      ->StartIfThereIs(name->schedule);
}

void DeadLetterService::PurgeDeadLetters(v1::PurgeDeadLettersRequest request,
                                         Done<v1::PurgeDeadLettersResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  absl::StatusOr<DeadLetterSelection> selection =
      DeadLetterSelection::Read(*tenant, request.filter(), "");
  violations.AddStatus("", selection.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  if (!request.force()) {
    return CountDeadLetters(
        context_, *std::move(selection),
        [done = std::move(done)](absl::StatusOr<DeadLetterCount> count) mutable {
          if (!count.ok()) return done(count.status());
          v1::PurgeDeadLettersResponse response;
          response.set_purge_count(static_cast<int64_t>(count->count));
          response.set_more(count->more);
          for (std::string& name : count->sample) response.add_purge_sample(std::move(name));
          done(std::move(response));
        });
  }
  OperationRequest operation;
  operation.operation = {
      .tenant = *tenant, .kind = OperationRecord::PURGE, .filter = request.filter()};
  operation.mark =
      RequestMark(*tenant, "PurgeDeadLetters", request.request_id(), request, *done.caller());
  operation.respond = &RespondToPurge;
  NewBeginning(context_, loop_, *std::move(selection), std::move(operation), std::move(done))
      ->Start();
}

namespace {

using kv::ColumnFamily;

std::optional<std::pair<absl::Time, std::string>> ReadLetterKey(absl::string_view key) {
  std::optional<DeadLetterName> name = DecodeDeadLetterKey(key);
  if (!name.has_value()) return std::nullopt;
  return std::pair(name->time, std::move(name->tenant));
}

// An ended operation never changes again.
std::optional<std::string> DeleteOldOperations(const kv::ScanResult& page, absl::Time now,
                                               kv::Commit& commit) {
  const int64_t oldest_kept = ToMicros(now - kOperationRetention);
  kv::Group& group = commit.groups.emplace_back();
  for (const kv::Entry& entry : page.entries) {
    const auto record = ReadOperation(entry.value);
    const bool kept =
        record.ok() && (record->end_time_micros() == 0 || record->end_time_micros() >= oldest_kept);
    if (!kept) group.mutations.push_back(kv::Delete(ColumnFamily::kOperations, entry.key));
  }
  return std::nullopt;
}

}  // namespace

std::vector<SweptRows> DeadLetterSweep(absl::Duration retention, MasterMetrics& metrics) {
  SweptRows letters =
      SweptByTime(ColumnFamily::kDeadLetters, retention, &ReadLetterKey, &DeadLetterPrefix);
  letters.deleted = &metrics.dead_letters_collected;
  return {std::move(letters),
          {.cf = ColumnFamily::kOperations, .delete_old = &DeleteOldOperations}};
}

namespace {

constexpr absl::Duration kRetryDelay = absl::Milliseconds(5);

class Redrive : public std::enable_shared_from_this<Redrive> {
 public:
  Redrive(MasterContext& context, DeadLetterName name, RequestMark mark, bool validate_only,
          Done<v1::Event> done)
      : context_(context),
        name_(std::move(name)),
        key_(EncodeDeadLetterKey(name_)),
        mark_(std::move(mark)),
        validate_only_(validate_only),
        done_(std::move(done)) {}

  void Start() {
    AnswerOr(context_, mark_, done_, [self = shared_from_this()] { self->ReadLetter(); });
  }

 private:
  void ReadLetter() {
    context_.client.MultiGet({{kv::ColumnFamily::kDeadLetters, key_}}, context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               if (!result.ok()) return self->done_(StoreFailed(result.status()));
                               if (!result->values[0].has_value())
                                 return self->Refuse(NotFound(ToString(self->name_)));
                               self->OnLetter(*std::move(result->values[0]));
                             });
  }

  void OnLetter(std::string bytes) {
    absl::StatusOr<StoredDeadLetter> letter = ReadDeadLetter(key_, std::move(bytes));
    if (!letter.ok()) return done_(letter.status());
    letters_.assign(1, *std::move(letter));
    ReadRedriveFacts(context_, letters_,
                     [self = shared_from_this()](absl::StatusOr<RedriveFacts> facts) {
                       if (!facts.ok()) return self->done_(facts.status());
                       self->Decide(*facts);
                     });
  }

  void Decide(const RedriveFacts& facts) {
    const absl::Time now = context_.client.NowLow();
    RedriveBatch batch(facts, context_.layout, now);
    const absl::Status added = batch.Add(letters_[0], now);
    if (!added.ok()) return Refuse(added);
    response_ = ShowRedriven(letters_[0], batch.row());
    if (validate_only_) return done_(std::move(response_));
    kv::Commit commit;
    batch.MoveTo(commit.groups.emplace_back());
    mark_.AddTo(response_, now, /*version_before=*/0, commit.groups[0]);
    context_.client.CommitAsync(
        std::move(commit), context_.executor,
        [self = shared_from_this()](absl::StatusOr<kv::CommitResult> result) {
          self->OnCommitted(std::move(result));
        });
  }

  // An earlier try of this request may have redriven the event, applied after its mark was read.
  void Refuse(absl::Status status) {
    AnswerOr(context_, mark_, done_,
             [self = shared_from_this(), status = std::move(status)] { self->done_(status); });
  }

  void OnCommitted(absl::StatusOr<kv::CommitResult> result) {
    if (!result.ok()) return done_(StoreFailed(result.status()));
    if (result->verdicts[0].applied) {
      context_.metrics.dead_letters_redriven.Increment();
      return done_(std::move(response_));
    }
    if (++attempts_ >= kChangeAttemptsMax) return done_(Contended(ToString(name_)));
    context_.executor->PostAfter(kRetryDelay * attempts_,
                                 [self = shared_from_this()] { self->Start(); });
  }

  MasterContext& context_;
  const DeadLetterName name_;
  const std::string key_;
  const RequestMark mark_;
  const bool validate_only_;
  Done<v1::Event> done_;
  std::vector<StoredDeadLetter> letters_;  // one
  v1::Event response_;
  int attempts_ = 0;
};

}  // namespace

void RedriveOne(MasterContext& context, DeadLetterName name, RequestMark mark, bool validate_only,
                Done<v1::Event> done) {
  std::make_shared<Redrive>(context, std::move(name), std::move(mark), validate_only,
                            std::move(done))
      ->Start();
}

void ReadRedriveFacts(MasterContext& context, const std::vector<StoredDeadLetter>& letters,
                      absl::AnyInvocable<void(absl::StatusOr<RedriveFacts>)> done) {
  std::set<std::pair<kv::ColumnFamily, std::string>> wanted;
  for (const StoredDeadLetter& letter : letters) {
    for (kv::Key& key : RedriveFactKeys(letter)) wanted.emplace(key.cf, std::move(key.key));
  }
  if (wanted.empty()) return done(RedriveFacts());
  std::vector<kv::Key> keys;
  for (const auto& [cf, key] : wanted) keys.push_back({cf, key});
  context.client.MultiGet(
      keys, context.executor,
      [keys, done = std::move(done)](absl::StatusOr<kv::GetResult> result) mutable {
        if (!result.ok()) return done(StoreFailed(result.status()));
        RedriveFacts facts;
        for (size_t i = 0; i < keys.size(); ++i)
          facts[{keys[i].cf, std::move(keys[i].key)}] = std::move(result->values[i]);
        done(std::move(facts));
      });
}

}  // namespace escapement::master
