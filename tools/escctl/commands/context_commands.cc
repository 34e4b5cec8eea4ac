#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/escctl/base/contexts.h"
#include "tools/escctl/base/key_file.h"
#include "tools/escctl/base/session.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

// Loads the contexts, lets `change` change them, and saves them unless it returns an error.
void Change(Session& session, const std::function<absl::Status(Contexts&)>& change) {
  auto contexts = LoadContexts(session.contexts_path());
  if (!contexts.ok()) return session.FailUsage(contexts.status().message());
  absl::Status status = change(*contexts);
  if (status.ok()) status = SaveContexts(*contexts, session.contexts_path());
  if (!status.ok()) session.FailUsage(status.message());
}

absl::Status CheckExists(const Contexts& contexts, const std::string& name) {
  return ChooseContext(contexts, name).status();
}

void AddSet(CLI::App& group, Session& session) {
  struct Options {
    std::string name;
    std::string server;
    std::string tenant;
    std::string key_file;
    PeerTls tls;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("set-context", "give a server a name, or change it");
  command->add_option("name", o->name, "name of the context")->required();
  command->add_option("--server", o->server, "host:port of a master")->required();
  command->add_option("--tenant", o->tenant, "tenant of short names; default: default");
  command->add_option("--key-file", o->key_file,
                      "file with your API key; the context keeps its path, not the key");
  AddTlsFlags(*command, o->tls);
  command->callback([o, &session] {
    if (auto status = CheckContextName(o->name); !status.ok())
      return session.FailUsage(status.message());
    if (!absl::StrContains(o->server, ':')) {
      return session.FailUsage(
          absl::StrCat("--server: '", o->server, "' is not host:port, e.g. 127.0.0.1:7410"));
    }
    if (auto status = CheckKeyPath(o->key_file); !status.ok())
      return session.FailUsage(absl::StrCat("--key-file: ", status.message()));
    // The current folder will be another one.
    for (std::string* file : {&o->tls.ca, &o->tls.cert, &o->tls.key, &o->key_file})
      if (!file->empty()) *file = std::filesystem::absolute(*file).lexically_normal();
    if (auto status = CheckTlsFlags(o->tls); !status.ok())
      return session.FailUsage(status.message());
    if (!o->key_file.empty()) {
      if (auto key = ReadKeyFile(o->key_file); !key.ok())
        return session.FailUsage(absl::StrCat("--key-file: ", key.status().message()));
    }
    Change(session, [&](Contexts& contexts) {
      contexts.by_name[o->name] = {.server = o->server,
                                   .tenant = o->tenant,
                                   .tls_ca = o->tls.ca,
                                   .tls_cert = o->tls.cert,
                                   .tls_key = o->tls.key,
                                   .key_file = o->key_file};
      session.Say(absl::StrCat("context ", o->name, " is saved"));
      return absl::OkStatus();
    });
  });
}

void AddUseAndDelete(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  CLI::App* use = group.add_subcommand("use-context", "make a context the current one");
  use->add_option("name", *name, "name of the context")->required();
  use->callback([name, &session] {
    Change(session, [&](Contexts& contexts) {
      RETURN_IF_ERROR(CheckExists(contexts, *name));
      contexts.current = *name;
      session.Say(absl::StrCat("context ", *name, " is the current one"));
      return absl::OkStatus();
    });
  });
  CLI::App* remove = group.add_subcommand("delete-context", "forget a context");
  remove->add_option("name", *name, "name of the context")->required();
  remove->callback([name, &session] {
    Change(session, [&](Contexts& contexts) {
      RETURN_IF_ERROR(CheckExists(contexts, *name));
      contexts.by_name.erase(*name);
      if (contexts.current == *name) contexts.current.clear();
      session.Say(absl::StrCat("deleted context ", *name));
      return absl::OkStatus();
    });
  });
}

void PrintContexts(Session& session, const Contexts& contexts) {
  std::vector<Row> rows;
  auto list = nlohmann::ordered_json::array();
  for (const auto& [name, context] : contexts.by_name) {
    const bool current = name == contexts.current;
    const std::string tenant = context.tenant.empty() ? "default" : context.tenant;
    const bool tls = !context.tls_ca.empty();
    rows.push_back({current ? "*" : "", name, context.server, tenant, tls ? "yes" : "no",
                    context.key_file.empty() ? "no" : "yes"});
    list.push_back({{"name", name},
                    {"server", context.server},
                    {"tenant", tenant},
                    {"tlsCa", context.tls_ca},
                    {"tlsCert", context.tls_cert},
                    {"keyFile", context.key_file},
                    {"current", current}});
  }
  session.Print(session.format() == OutputFormat::kTable
                    ? FormatTable({"CURRENT", "NAME", "SERVER", "TENANT", "TLS", "KEY"}, rows)
                    : FormatJsonText(list.dump(), session.format()));
}

void AddShow(CLI::App& group, Session& session) {
  CLI::App* list = group.add_subcommand("get-contexts", "show all contexts");
  list->callback([&session] {
    const auto contexts = LoadContexts(session.contexts_path());
    if (!contexts.ok()) return session.FailUsage(contexts.status().message());
    PrintContexts(session, *contexts);
  });
  CLI::App* current = group.add_subcommand("current-context", "show the name of the current one");
  current->callback([&session] {
    const auto contexts = LoadContexts(session.contexts_path());
    if (!contexts.ok()) return session.FailUsage(contexts.status().message());
    if (!contexts->current.empty()) return session.Print(absl::StrCat(contexts->current, "\n"));
    session.Say("escctl: no context is the current one; escctl config use-context sets it");
    session.SetFailed();
  });
}

}  // namespace

void AddContextCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("config", "contexts: names for servers");
  group->require_subcommand(1);
  group->fallthrough();
  AddSet(*group, session);
  AddUseAndDelete(*group, session);
  AddShow(*group, session);
}

}  // namespace escapement::escctl
