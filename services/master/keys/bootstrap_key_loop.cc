#include "services/master/keys/bootstrap_key_loop.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/time/time.h"
#include "common/auth/api_key.h"
#include "common/auth/audit_log.h"
#include "common/base/bounded_file.h"
#include "common/base/log.h"
#include "common/base/micros.h"
#include "common/storage/access_table.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "escapement/v1/access.pb.h"

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

}  // namespace escapement::master
