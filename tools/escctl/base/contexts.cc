#include "tools/escctl/base/contexts.h"

#include <fcntl.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace escapement::escctl {
namespace {

constexpr char kFile[] = "escctl.yaml";
constexpr size_t kNameCharsMax = 63;

std::string TextOf(const YAML::Node& node) {
  return node.IsDefined() && node.IsScalar() ? node.Scalar() : "";
}

bool WriteAll(int file, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

std::string ContextsPath(
    const std::function<std::optional<std::string>(const char*)>& environment) {
  const std::string folder = environment("ESCAPEMENT_CONFIG_DIR").value_or("");
  if (!folder.empty()) return absl::StrCat(folder, "/", kFile);
  const std::string home = environment("HOME").value_or("");
  return home.empty() ? "" : absl::StrCat(home, "/.config/escapement/", kFile);
}

absl::StatusOr<Contexts> LoadContexts(const std::string& path) {
  Contexts contexts;
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return contexts;
  try {
    const YAML::Node root = YAML::LoadFile(path);
    if (!root.IsMap()) {
      if (root.IsNull()) return contexts;
      return absl::InvalidArgumentError(absl::StrCat(path, ": must hold current and contexts"));
    }
    contexts.current = TextOf(root["current"]);
    for (const auto& entry : root["contexts"]) {
      contexts.by_name[entry.first.Scalar()] = {.server = TextOf(entry.second["server"]),
                                                .tenant = TextOf(entry.second["tenant"]),
                                                .tls_ca = TextOf(entry.second["tls-ca"]),
                                                .tls_cert = TextOf(entry.second["tls-cert"]),
                                                .tls_key = TextOf(entry.second["tls-key"]),
                                                .key_file = TextOf(entry.second["key-file"])};
    }
  } catch (const YAML::Exception& problem) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", problem.what()));
  }
  return contexts;
}

absl::Status SaveContexts(const Contexts& contexts, const std::string& path) {
  if (path.empty())
    return absl::InvalidArgumentError("set ESCAPEMENT_CONFIG_DIR or HOME to keep contexts");
  YAML::Emitter out;
  out << YAML::BeginMap << YAML::Key << "current" << YAML::Value << YAML::DoubleQuoted
      << contexts.current << YAML::Key << "contexts" << YAML::Value << YAML::BeginMap;
  for (const auto& [name, context] : contexts.by_name) {
    out << YAML::Key << YAML::DoubleQuoted << name << YAML::Value << YAML::BeginMap;
    out << YAML::Key << "server" << YAML::Value << YAML::DoubleQuoted << context.server;
    const auto write_unless_empty = [&](const char* key, const std::string& value) {
      if (!value.empty()) out << YAML::Key << key << YAML::Value << YAML::DoubleQuoted << value;
    };
    write_unless_empty("tenant", context.tenant);
    write_unless_empty("tls-ca", context.tls_ca);
    write_unless_empty("tls-cert", context.tls_cert);
    write_unless_empty("tls-key", context.tls_key);
    write_unless_empty("key-file", context.key_file);
    out << YAML::EndMap;
  }
  out << YAML::EndMap << YAML::EndMap;

  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  std::string temporary = path + ".XXXXXX";
  const int file = mkstemp(temporary.data());  // mode 0600
  if (file < 0) return absl::InvalidArgumentError(absl::StrCat("cannot write ", path));
  const bool written = WriteAll(file, absl::StrCat(out.c_str(), "\n"));
  if (close(file) != 0 || !written || std::rename(temporary.c_str(), path.c_str()) != 0) {
    unlink(temporary.c_str());
    return absl::InvalidArgumentError(absl::StrCat("cannot write ", path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Context>> ChooseContext(const Contexts& contexts,
                                                     const std::string& name) {
  const std::string& chosen = name.empty() ? contexts.current : name;
  if (chosen.empty()) return std::nullopt;
  const auto found = contexts.by_name.find(chosen);
  if (found == contexts.by_name.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no context '", chosen, "'; escctl config get-contexts shows all of them"));
  }
  return found->second;
}

absl::Status CheckContextName(absl::string_view name) {
  const bool valid = !name.empty() && name.size() <= kNameCharsMax &&
                     std::all_of(name.begin(), name.end(), [](unsigned char c) {
                       return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
                     });
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("name: must have 1 to ", kNameCharsMax,
                                                 " characters of a-z, A-Z, 0-9, '-', '_' and '.'"));
}

}  // namespace escapement::escctl
