#include "services/master/keys/key_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/auth/audit_log.h"
#include "common/auth/key_directory.h"
#include "common/base/bounded_file.h"
#include "common/base/key_codec.h"
#include "common/base/log.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "escapement/v1/access.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/record_transaction.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

namespace {

using kv::ColumnFamily;

constexpr absl::Duration kLookEvery = absl::Seconds(1);
constexpr size_t kFileBytesMax = 256;
constexpr char kPrincipal[] = "bootstrap";

}  // namespace

void BootstrapKeyLoop::Start() {
  if (!file_.empty()) Step();
}

void BootstrapKeyLoop::Step() {
  const absl::StatusOr<std::string> read = ReadBoundedFile(file_, kFileBytesMax);
  // A file that is missing or cannot be read may be there later.
  std::string text(absl::StripAsciiWhitespace(read.value_or("")));
  // The file is too large to hold a key. Store refuses this text and writes the log line, once.
  if (absl::IsInvalidArgument(read.status())) text = std::string(read.status().message());
  if (!text.empty() && text != seen_) Store(text);
  context_.executor->PostAfter(kLookEvery, [this] { Step(); });
}

void BootstrapKeyLoop::Store(const std::string& text) {
  const std::optional<auth::ApiKeyParts> key = auth::ParseApiKey(text);
  if (!key.has_value()) {
    seen_ = text;
    Log(LogLevel::kError, "master.keys", "the bootstrap key file does not hold an API key",
        {{"file", file_}});
    return;
  }
  const absl::Time now = context_.client.NowLow();
  storage::v1::KeyRecord record;
  record.set_tenant(std::string(kAllTenants));
  record.set_key_id(key->id);
  record.set_display_name(kPrincipal);
  record.set_role(v1::Access::ADMIN);
  record.set_secret_sha256(auth::HashApiKeySecret(key->secret));
  record.set_create_time_micros(ToMicros(now));
  record.set_from_file(true);
  const std::string row = ApiKeyKey(kAllTenants, key->id);
  kv::Commit commit;
  kv::Group& group = commit.groups.emplace_back();
  group.conditions.push_back(
      {.cf = ColumnFamily::kKeys, .key = row, .kind = kv::Condition::Kind::kAbsent});
  group.mutations.push_back(
      {.cf = ColumnFamily::kKeys, .key = row, .value = record.SerializeAsString()});
  const Caller caller{.principal = kPrincipal, .role = v1::Access::ADMIN};
  auth::AddAuditRow(kAllTenants,
                    auth::AuditRecordOf(caller, "CreateKey", "tenants/-/keys/" + key->id, ""), now,
                    /*nonce=*/0, group);
  context_.client.CommitAsync(
      std::move(commit), context_.executor,
      [this, text, id = key->id](const absl::StatusOr<kv::CommitResult>& result) {
        if (!result.ok()) return;  // the next step tries again
        seen_ = text;
        if (result->verdicts[0].applied) {
          Log(LogLevel::kInfo, "master.keys", "the bootstrap key is stored", {{"key", id}});
        }
      });
}

namespace {

using kv::ColumnFamily;
using storage::v1::KeyRecord;

v1::ApiKey ShowKey(const KeyRecord& record, absl::Time last_use) {
  v1::ApiKey key;
  key.set_name(KeyName{record.tenant(), record.key_id()}.ToString());
  key.set_display_name(record.display_name());
  key.set_role(static_cast<v1::Access::Role>(record.role()));
  SetTimestamp(record.create_time_micros(), *key.mutable_create_time());
  if (record.expire_time_micros() != 0)
    SetTimestamp(record.expire_time_micros(), *key.mutable_expire_time());
  if (record.revoke_time_micros() != 0)
    SetTimestamp(record.revoke_time_micros(), *key.mutable_revoke_time());
  if (last_use != absl::InfinitePast())
    SetTimestamp(ToMicros(last_use), *key.mutable_last_use_time());
  return key;
}

absl::Time LastUse(const std::optional<std::string>& row) {
  return row.has_value() ? DecodeApiKeyUse(*row) : absl::InfinitePast();
}

// Everything but tenant, id, secret and creation.
absl::StatusOr<KeyRecord> ReadKey(const v1::ApiKey& key, absl::Time now) {
  FieldViolations violations;
  KeyRecord record;
  CheckShownText("key.display_name", key.display_name(), kDisplayNameCharsMax, violations);
  record.set_display_name(key.display_name());
  if (key.role() < v1::Access::VIEWER || key.role() > v1::Access::ADMIN)
    violations.Add("key.role", "is required: VIEWER, OPERATOR, EDITOR or ADMIN");
  record.set_role(key.role());
  if (key.has_expire_time()) {
    const std::optional<int64_t> micros = TimestampMicros(key.expire_time());
    if (!micros.has_value() || FromMicros(*micros) <= now) {
      violations.Add("key.expire_time", "must be in the future");
    } else {
      record.set_expire_time_micros(*micros);
    }
  }
  if (!violations.empty()) return violations.ToStatus();
  return record;
}

// A caller gives no more than it has. Its tenants are checked by the gate.
absl::Status CheckGrant(const Caller& caller, v1::Access::Role role) {
  if (role <= caller.role) return absl::OkStatus();
  return MakeError(absl::StatusCode::kPermissionDenied, "ROLE_TOO_LOW",
                   absl::StrCat("a key cannot have a higher role than its maker's, ",
                                v1::Access::Role_Name(caller.role)));
}

absl::StatusOr<RecordDecision> DecideRevoke(const KeyName& name,
                                            const std::optional<std::string>& bytes,
                                            absl::Time now) {
  if (!bytes.has_value()) return NotFound(name.ToString());
  KeyRecord record;
  if (!record.ParseFromString(*bytes)) return BrokenRecord(name.ToString());
  RecordDecision decision;
  decision.group.conditions.push_back({.cf = ColumnFamily::kKeys,
                                       .key = ApiKeyKey(name.tenant, name.key),
                                       .kind = kv::Condition::Kind::kValueEquals,
                                       .value = *bytes});
  if (record.revoke_time_micros() == 0) record.set_revoke_time_micros(ToMicros(now));
  decision.group.mutations.push_back({.cf = ColumnFamily::kKeys,
                                      .key = ApiKeyKey(name.tenant, name.key),
                                      .value = record.SerializeAsString()});
  decision.response = std::make_unique<v1::ApiKey>(ShowKey(record, absl::InfinitePast()));
  return decision;
}

// Makes the secret, stores its hash, and answers with it.
void StoreNewKey(MasterContext& context, const std::string& tenant, KeyRecord record,
                 RequestMark mark, Done<v1::ApiKey> done) {
  const auth::ApiKeyParts fresh = auth::NewApiKey();
  record.set_tenant(tenant);
  record.set_key_id(fresh.id);
  record.set_secret_sha256(auth::HashApiKeySecret(fresh.secret));
  const std::string name = KeyName{tenant, fresh.id}.ToString();
  RecordChange change{.key = {ColumnFamily::kKeys, ApiKeyKey(tenant, fresh.id)},
                      .resource = name,
                      .mark = std::move(mark)};
  change.decide = [name, record = std::move(record)](
                      const std::optional<std::string>& bytes,
                      absl::Time now) mutable -> absl::StatusOr<RecordDecision> {
    if (bytes.has_value()) return AlreadyExists(name);
    record.set_create_time_micros(ToMicros(now));
    const std::string key = ApiKeyKey(record.tenant(), record.key_id());
    RecordDecision decision;
    decision.group.conditions.push_back(
        {.cf = ColumnFamily::kKeys, .key = key, .kind = kv::Condition::Kind::kAbsent});
    decision.group.mutations.push_back(
        {.cf = ColumnFamily::kKeys, .key = key, .value = record.SerializeAsString()});
    decision.response = std::make_unique<v1::ApiKey>(ShowKey(record, absl::InfinitePast()));
    return decision;
  };
  change.response = std::make_unique<v1::ApiKey>();
  ChangeRecord(context, std::move(change),
               [secret = fresh.ToString(), done = std::move(done)](
                   absl::StatusOr<std::unique_ptr<google::protobuf::Message>> response) mutable {
                 if (!response.ok()) return done(response.status());
                 v1::ApiKey key = std::move(static_cast<v1::ApiKey&>(**response));
                 key.set_secret(std::move(secret));
                 done(std::move(key));
               });
}

}  // namespace

void KeyService::CreateKey(v1::CreateKeyRequest request, Done<v1::ApiKey> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantOrAll(request.parent(), "parent");
  absl::StatusOr<KeyRecord> draft = ReadKey(request.key(), context_.client.NowLow());
  FieldViolations violations;
  violations.AddStatus("", tenant.status());
  violations.AddStatus("", draft.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  if (absl::Status allowed = CheckGrant(*done.caller(), request.key().role()); !allowed.ok())
    return context_.Refuse(std::move(allowed), std::move(done));
  if (request.validate_only()) {
    v1::ApiKey shown = ShowKey(*draft, absl::InfinitePast());
    shown.clear_name();
    shown.clear_create_time();
    return context_.executor->Post(
        [shown = std::move(shown), done = std::move(done)]() mutable { done(std::move(shown)); });
  }
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kKeys;
  scan.begin = ApiKeyPrefix(*tenant);
  scan.end = PrefixEnd(scan.begin);
  scan.limit = kKeysOfTenantMax;
  scan.keys_only = true;
  RequestMark mark(*tenant, "CreateKey", "", request, *done.caller());
  context_.client.Scan(
      std::move(scan), context_.executor,
      [this, tenant = *tenant, draft = *std::move(draft), mark = std::move(mark),
       done = std::move(done)](absl::StatusOr<kv::ScanResult> keys) mutable {
        if (!keys.ok()) return done(StoreFailed(keys.status()));
        if (keys->entries.size() >= kKeysOfTenantMax) {
          return done(ResourceExhausted(
              "TOO_MANY_KEYS", absl::StrCat("tenants/", tenant, " has ", kKeysOfTenantMax, " keys"),
              absl::Hours(1)));
        }
        StoreNewKey(context_, tenant, std::move(draft), std::move(mark), std::move(done));
      });
}

void KeyService::GetKey(v1::GetKeyRequest request, Done<v1::ApiKey> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<KeyName> name = ParseKeyName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  context_.client.MultiGet({{ColumnFamily::kKeys, ApiKeyKey(name->tenant, name->key)},
                            {ColumnFamily::kKeys, ApiKeyUseKey(name->key)}},
                           context_.executor,
                           [name = name->ToString(),
                            done = std::move(done)](absl::StatusOr<kv::GetResult> result) mutable {
                             if (!result.ok()) return done(StoreFailed(result.status()));
                             if (!result->values[0].has_value()) return done(NotFound(name));
                             KeyRecord record;
                             if (!record.ParseFromString(*result->values[0]))
                               return done(BrokenRecord(name));
                             done(ShowKey(record, LastUse(result->values[1])));
                           });
}

void KeyService::ListKeys(v1::ListKeysRequest request, Done<v1::ListKeysResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantOrAll(request.parent(), "parent");
  std::string list = absl::StrCat("ListKeys ", request.parent());
  const absl::StatusOr<int32_t> size = ReadPageSize(request.page_size());
  const absl::StatusOr<std::string> begin = DecodePageToken(list, request.page_token());
  FieldViolations violations;
  violations.AddStatus("", tenant.status());
  violations.AddStatus("", size.status());
  violations.AddStatus("", begin.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kKeys;
  scan.begin = begin->empty() ? ApiKeyPrefix(*tenant) : ApiKeyKey(*tenant, *begin);
  scan.end = PrefixEnd(ApiKeyPrefix(*tenant));
  scan.limit = static_cast<uint32_t>(*size) + 1;
  context_.client.Scan(
      std::move(scan), context_.executor,
      [this, list = std::move(list), size = *size,
       done = std::move(done)](absl::StatusOr<kv::ScanResult> page) mutable {
        if (!page.ok()) return done(StoreFailed(page.status()));
        std::vector<KeyRecord> records;
        std::string next;
        for (const kv::Entry& entry : page->entries) {
          KeyRecord record;
          if (!record.ParseFromString(entry.value)) return done(BrokenRecord("a key"));
          if (records.size() == static_cast<size_t>(size)) {
            next = EncodePageToken(list, record.key_id());
            break;
          }
          records.push_back(std::move(record));
        }
        std::vector<kv::Key> uses;
        for (const KeyRecord& record : records)
          uses.push_back({ColumnFamily::kKeys, ApiKeyUseKey(record.key_id())});
        context_.client.MultiGet(
            std::move(uses), context_.executor,
            [records = std::move(records), next = std::move(next),
             done = std::move(done)](absl::StatusOr<kv::GetResult> result) mutable {
              if (!result.ok()) return done(StoreFailed(result.status()));
              v1::ListKeysResponse response;
              for (size_t i = 0; i < records.size(); ++i)
                *response.add_keys() = ShowKey(records[i], LastUse(result->values[i]));
              response.set_next_page_token(std::move(next));
              done(std::move(response));
            });
      });
}

void KeyService::RevokeKey(v1::RevokeKeyRequest request, Done<v1::ApiKey> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<KeyName> name = ParseKeyName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  RecordChange change{.key = {ColumnFamily::kKeys, ApiKeyKey(name->tenant, name->key)},
                      .resource = name->ToString(),
                      .mark = RequestMark(name->tenant, "RevokeKey", "", request, *done.caller())};
  change.decide = [name = *name](const std::optional<std::string>& bytes, absl::Time now) {
    return DecideRevoke(name, bytes, now);
  };
  change.response = std::make_unique<v1::ApiKey>();
  ChangeRecord(context_, std::move(change), AsAnswer(std::move(done)));
}

}  // namespace escapement::master
