// `escctl key`.

#include <google/protobuf/util/time_util.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/auth/key_directory.h"
#include "common/base/status_macros.h"
#include "common/secrets/sealed_value.h"
#include "escapement/v1/audit_service.grpc.pb.h"
#include "escapement/v1/key_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/base/key_file.h"
#include "tools/escctl/base/timing_flags.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {

namespace {

using google::protobuf::util::TimeUtil;
using v1::ApiKey;
using KeyStub = v1::KeyService::Stub;

constexpr char kAllTenants[] = "tenants/-";
constexpr absl::Duration kLifetimeMax = absl::Hours(24 * 366 * 100);

const Row& KeyHeader() {
  static const Row header = {"NAME",    "ROLE",     "CREATED",     "EXPIRES",
                             "REVOKED", "LAST USE", "DISPLAY NAME"};
  return header;
}

std::string Time(bool has, const google::protobuf::Timestamp& time) {
  return has ? TimeUtil::ToString(time) : "-";
}

Row KeyRow(const ApiKey& key) {
  return {key.name(),
          v1::Access::Role_Name(key.role()),
          Time(key.has_create_time(), key.create_time()),
          Time(key.has_expire_time(), key.expire_time()),
          Time(key.has_revoke_time(), key.revoke_time()),
          Time(key.has_last_use_time(), key.last_use_time()),
          key.display_name()};
}

void PrintKey(Session& session, const ApiKey& key) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(key, session.format()));
  session.Print(FormatTable(KeyHeader(), {KeyRow(key)}));
}

std::shared_ptr<bool> AddAllTenants(CLI::App& command, const char* description) {
  auto wanted = std::make_shared<bool>(false);
  command.add_flag("--all-tenants", *wanted, description);
  return wanted;
}

std::string ParentOf(const Session& session, bool all_tenants) {
  return all_tenants ? kAllTenants : session.parent();
}

// Parses "30d", "12h" or "30d12h".
absl::StatusOr<absl::Duration> ParseLifetime(const std::string& text) {
  absl::string_view rest = text;
  absl::Duration days;
  absl::Duration others;
  int64_t count = 0;
  const size_t d = rest.find('d');
  bool valid = !rest.empty();
  if (d != absl::string_view::npos) {
    valid = absl::SimpleAtoi(rest.substr(0, d), &count) && count > 0;
    days = count * absl::Hours(24);
    rest.remove_prefix(d + 1);
  }
  valid = valid && (rest.empty() || absl::ParseDuration(rest, &others));
  const absl::Duration lifetime = days + others;
  if (valid && others >= absl::ZeroDuration() && lifetime > absl::ZeroDuration() &&
      lifetime <= kLifetimeMax) {
    return lifetime;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--expires-in: '", text, "' is not a length of time such as 30d or 12h"));
}

struct CreateOptions {
  std::string role;
  std::string display_name;
  std::string expires_in;
  std::string expire_time;
  std::string key_file;
};

absl::StatusOr<ApiKey> WantedKey(const CreateOptions& o) {
  ApiKey key;
  v1::Access::Role role{};
  if (v1::Access::Role_Parse(o.role, &role)) key.set_role(role);  // CLI11 has checked it
  key.set_display_name(o.display_name);
  if (!o.expires_in.empty()) {
    ASSIGN_OR_RETURN(const auto lifetime, ParseLifetime(o.expires_in));
    *key.mutable_expire_time() =
        TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(absl::Now() + lifetime));
  } else if (!o.expire_time.empty()) {
    ASSIGN_OR_RETURN(const auto time, ParseTimeFlag("--expire-time", o.expire_time, absl::Now()));
    *key.mutable_expire_time() = time;
  }
  return key;
}

void Create(Session& session, const CreateOptions& o, bool all_tenants, bool validate_only) {
  v1::CreateKeyRequest request;
  request.set_parent(ParentOf(session, all_tenants));
  request.set_validate_only(validate_only);
  auto wanted = WantedKey(o);
  if (!wanted.ok()) return session.FailUsage(wanted.status().message());
  *request.mutable_key() = *std::move(wanted);
  std::optional<NewKeyFile> file;
  if (!o.key_file.empty()) {
    auto created = NewKeyFile::Create(o.key_file);
    if (!created.ok()) {
      return session.FailUsage(absl::StrCat(
          "--key-file: ", created.status().message(),
          "; key create writes the new key there. A --key-file before the command names the key "
          "that you call with"));
    }
    file.emplace(*std::move(created));
  }
  ApiKey key;
  const grpc::Status status = session.Call(&KeyStub::CreateKey, request, key);
  if (!status.ok()) return session.Fail(status);
  const std::string secret = std::exchange(*key.mutable_secret(), "");
  if (validate_only) return PrintKey(session, key);
  if (file.has_value()) {
    PrintKey(session, key);
    if (const absl::Status written = file->Write(secret); !written.ok()) {
      session.Say(absl::StrCat("escctl: --key-file: ", written.message(),
                               "; the key is lost: escctl key revoke ", key.name()));
      return session.SetFailed();
    }
    return session.Say(absl::StrCat("the key is in ", o.key_file));
  }
  if (session.format() == OutputFormat::kTable) {
    session.Print(FormatTable({"NAME", "ROLE", "EXPIRES", "KEY"},
                              {{key.name(), v1::Access::Role_Name(key.role()),
                                Time(key.has_expire_time(), key.expire_time()), secret}}));
  } else {
    key.set_secret(secret);
    PrintKey(session, key);
  }
  session.Say("the key cannot be shown again; --key-file writes it to a file instead");
}

void AddKeyCreate(CLI::App& group, Session& session) {
  auto o = std::make_shared<CreateOptions>();
  CLI::App* command = group.add_subcommand(
      "create",
      "create an API key\n"
      "The key is printed, once, unless --key-file is given. The --key-file of this command is the "
      "file of the new key; to call with a key file, put its --key-file before the command, or use "
      "a context.");
  command->add_option("--role", o->role, "VIEWER, OPERATOR, EDITOR or ADMIN")
      ->required()
      ->transform(CLI::IsMember({"VIEWER", "OPERATOR", "EDITOR", "ADMIN"}, CLI::ignore_case));
  command->add_option("--display-name", o->display_name, "text for people: who uses the key");
  auto* expires_in =
      command->add_option("--expires-in", o->expires_in, "from now, e.g. 30d or 12h");
  command->add_option("--expire-time", o->expire_time, "e.g. 2027-01-01T00:00:00Z; default: never")
      ->excludes(expires_in);
  command->add_option("--key-file", o->key_file,
                      "new file that gets the key, readable only by you");
  auto all_tenants = AddAllTenants(*command, "the key is valid for all tenants");
  auto dry = AddValidateOnly(*command);
  command->callback([o, all_tenants, dry, &session] { Create(session, *o, *all_tenants, *dry); });
}

std::string KeyName(const Session& session, bool all_tenants, const std::string& name) {
  if (all_tenants && name.find('/') == std::string::npos)
    return absl::StrCat(kAllTenants, "/keys/", name);
  return session.FullName("keys", name);
}

void AddGetAndRevoke(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  CLI::App* get = group.add_subcommand("get", "show one key, without its secret");
  get->add_option("name", *name, "id or full name")->required();
  auto get_all = AddAllTenants(*get, "the key is one for all tenants");
  get->callback([name, get_all, &session] {
    v1::GetKeyRequest request;
    request.set_name(KeyName(session, *get_all, *name));
    ApiKey key;
    const grpc::Status status = session.Call(&KeyStub::GetKey, request, key);
    if (!status.ok()) return session.Fail(status);
    PrintKey(session, key);
  });
  CLI::App* revoke =
      group.add_subcommand("revoke", "end a key for good; it is refused within five seconds");
  revoke->add_option("name", *name, "id or full name")->required();
  auto revoke_all = AddAllTenants(*revoke, "the key is one for all tenants");
  revoke->callback([name, revoke_all, &session] {
    v1::RevokeKeyRequest request;
    request.set_name(KeyName(session, *revoke_all, *name));
    ApiKey key;
    const grpc::Status status = session.Call(&KeyStub::RevokeKey, request, key);
    if (!status.ok()) return session.Fail(status);
    PrintKey(session, key);
  });
}

void AddKeyList(CLI::App& group, Session& session) {
  auto flags = std::make_shared<ListFlags>();
  CLI::App* list = group.add_subcommand("list", "show the keys of the tenant, without secrets");
  flags->Add(*list, "keys", "", "");
  auto all_tenants = AddAllTenants(*list, "show the keys for all tenants");
  list->callback([flags, all_tenants, &session] {
    v1::ListKeysRequest request;
    request.set_parent(ParentOf(session, *all_tenants));
    flags->Run(
        session, KeyHeader(), &KeyStub::ListKeys, request,
        [](auto& page) { return page.mutable_keys(); }, KeyRow);
  });
}

}  // namespace

void AddKeyCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("key", "API keys: who may call, in which role");
  group->require_subcommand(1);
  group->fallthrough();
  AddKeyCreate(*group, session);
  AddGetAndRevoke(*group, session);
  AddKeyList(*group, session);
}

// `escctl admin`.

namespace {

void Bootstrap(Session& session, const std::string& path, bool print) {
  auto file = NewKeyFile::Create(path);
  if (!file.ok()) return session.FailUsage(absl::StrCat("--key-file: ", file.status().message()));
  const std::string key = auth::NewApiKey().ToString();
  if (const absl::Status written = file->Write(key); !written.ok())
    return session.FailUsage(absl::StrCat("--key-file: ", written.message()));
  session.Say(absl::StrCat("a new key for an admin of all tenants is in ", path));
  session.Say(absl::StrCat("start master or standalone with --require_credentials ",
                           "--bootstrap_key_file=", path));
  session.Say(absl::StrCat("then call with: escctl --key-file ", path, " tenant list"));
  if (print) session.Print(absl::StrCat(key, "\n"));
}

void NewSecretKey(Session& session, const std::string& path) {
  const SecretText line = KeyRing::NewLine(absl::Now());
  if (path.empty()) return session.Print(absl::StrCat(line.Reveal(), "\n"));
  auto file = NewKeyFile::Create(path);
  absl::Status written = file.status();
  if (written.ok()) written = file->Write(line.Reveal());
  if (!written.ok()) return session.FailUsage(absl::StrCat("--key-file: ", written.message()));
  session.Say(
      absl::StrCat("a new key is in ", path, "; keep a copy apart from the store's backups"));
  session.Say(
      absl::StrCat("start masters and handlers, or standalone, with --secret_keys_file=", path));
}

}  // namespace

void AddAdminCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("admin", "steps of an installation");
  group->require_subcommand(1);
  group->fallthrough();
  struct Options {
    std::string path;
    bool print = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group->add_subcommand(
      "bootstrap",
      "make the first key of an installation\n"
      "No server is called. Master and standalone store the key when they are started with "
      "--bootstrap_key_file; it is then an admin's key for all tenants.");
  command->add_option("--key-file", o->path, "new file that gets the key, readable only by you")
      ->required();
  command->add_flag("--print", o->print, "print the key as well");
  command->callback([o, &session] { Bootstrap(session, o->path, o->print); });
  auto path = std::make_shared<std::string>();
  CLI::App* secret_key = group->add_subcommand(
      "secret-key",
      "make a key that encrypts the secrets of targets\n"
      "No server is called. Without --key-file the line is printed: to replace a key, put the new "
      "line above the others in the file.");
  secret_key->add_option("--key-file", *path, "new file that gets the line, readable only by you");
  secret_key->callback([path, &session] { NewSecretKey(session, *path); });
}

// `escctl audit`.

namespace {

using google::protobuf::util::TimeUtil;
using v1::AuditEntry;
using AuditStub = v1::AuditService::Stub;

std::string Version(int64_t version) { return version == 0 ? "-" : absl::StrCat(version); }

Row ToRow(const AuditEntry& entry) {
  const bool versions = entry.version_before() != 0 || entry.version_after() != 0;
  return {TimeUtil::ToString(entry.time()),
          entry.principal(),
          entry.role() == v1::Access::ROLE_UNSPECIFIED ? "-" : v1::Access::Role_Name(entry.role()),
          entry.method(),
          entry.resource().empty() ? "-" : entry.resource(),
          versions ? absl::StrCat(Version(entry.version_before()), " to ",
                                  Version(entry.version_after()))
                   : "-",
          entry.reason().empty() ? entry.result()
                                 : absl::StrCat(entry.result(), " (", entry.reason(), ")"),
          entry.source()};
}

}  // namespace

void AddAuditCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("audit", "audit: who changed what");
  group->require_subcommand(1);
  group->fallthrough();
  CLI::App* list =
      group->add_subcommand("list", "show changes and refused calls, the newest first");
  auto flags = std::make_shared<ListFlags>();
  flags->AddWithoutWatch(*list, "entries",
                         "principal, method, resource, result and time, e.g. result != OK", "");
  auto all_tenants = std::make_shared<bool>(false);
  list->add_flag("--all-tenants", *all_tenants,
                 "show those that concern all tenants: tenants, their keys, the store");
  list->callback([flags, all_tenants, &session] {
    v1::ListAuditEntriesRequest request;
    if (*all_tenants) request.set_parent("tenants/-");
    flags->Run(
        session, {"TIME", "PRINCIPAL", "ROLE", "METHOD", "RESOURCE", "VERSION", "RESULT", "SOURCE"},
        &AuditStub::ListAuditEntries, request,
        [](auto& page) { return page.mutable_audit_entries(); }, ToRow);
  });
}

}  // namespace escapement::escctl
