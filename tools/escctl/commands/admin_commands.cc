// `escctl admin`.

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/auth/api_key.h"
#include "tools/escctl/base/key_file.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
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
}

}  // namespace escapement::escctl
