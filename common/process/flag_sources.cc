#include "common/process/flag_sources.h"

#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <exception>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "absl/flags/reflection.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "escapement/config/v1/config.pb.h"

namespace escapement {
namespace {

using FlagMap = std::map<std::string, absl::CommandLineFlag*>;

FlagMap OurFlags() {
  FlagMap flags;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    // Skip flags that the flags library itself defines.
    if (absl::StrContains(flag->Filename(), "absl/flags")) continue;
    flags.emplace(std::string(name), flag);
  }
  return flags;
}

void SetFlag(absl::CommandLineFlag* flag, const std::string& value, const std::string& place,
             std::vector<std::string>& errors) {
  std::string error;
  if (flag->ParseFrom(value, &error)) return;
  errors.push_back(absl::StrCat(place, ": ", flag->Name(), " cannot be '", value, "'",
                                error.empty() ? "" : absl::StrCat(": ", error)));
}

struct Argument {
  absl::CommandLineFlag* flag;
  std::string value;
};

std::vector<Argument> ReadArguments(const FlagMap& flags, const std::vector<std::string>& arguments,
                                    bool& help, std::vector<std::string>& errors) {
  std::vector<Argument> read;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view text = arguments[i];
    if (!absl::ConsumePrefix(&text, "--") && !absl::ConsumePrefix(&text, "-")) {
      errors.push_back(absl::StrCat("command line: unexpected argument '", arguments[i], "'"));
      continue;
    }
    const size_t equals = text.find('=');
    const std::string name(text.substr(0, equals));
    if (name == "help" || name == "h") {
      help = true;
      continue;
    }
    const auto found = flags.find(name);
    if (found != flags.end()) {
      if (equals != absl::string_view::npos) {
        read.push_back({found->second, std::string(text.substr(equals + 1))});
      } else if (found->second->IsOfType<bool>()) {
        read.push_back({found->second, "true"});
      } else if (i + 1 < arguments.size()) {
        read.push_back({found->second, arguments[++i]});
      } else {
        errors.push_back(absl::StrCat("command line: --", name, " needs a value"));
      }
      continue;
    }
    const auto negated = absl::StartsWith(name, "no") ? flags.find(name.substr(2)) : flags.end();
    if (negated != flags.end() && negated->second->IsOfType<bool>() &&
        equals == absl::string_view::npos) {
      read.push_back({negated->second, "false"});
    } else {
      errors.push_back(absl::StrCat("command line: unknown flag --", name));
    }
  }
  return read;
}

constexpr absl::string_view kPrefix = "ESCAPEMENT_";

std::string EnvironmentName(const std::string& flag) {
  return absl::StrCat(kPrefix, absl::AsciiStrToUpper(flag));
}

// True for settings of any service, because one file may serve all services.
bool IsSetting(const std::string& name) {
  return config::v1::Config::descriptor()->FindFieldByName(name) != nullptr;
}

void ApplyFile(const FlagMap& flags, const std::string& path, std::vector<std::string>& errors) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAllFromFile(path);
    if (documents.empty() || documents[0].IsNull()) return;
    if (documents.size() > 1) {
      errors.push_back(absl::StrCat(path, ": has more than one document"));
      return;
    }
    const YAML::Node& root = documents[0];
    if (!root.IsMap()) {
      errors.push_back(absl::StrCat(path, ": must be a map of flag names to values"));
      return;
    }
    std::set<std::string> seen;
    for (const auto& entry : root) {
      const std::string name = entry.first.as<std::string>();
      const std::string place = absl::StrCat(path, ":", entry.first.Mark().line + 1);
      if (!seen.insert(name).second)
        errors.push_back(absl::StrCat(place, ": ", name, " is set twice"));
      const auto found = flags.find(name);
      if (found == flags.end()) {
        if (!IsSetting(name))
          errors.push_back(absl::StrCat(place, ": unknown setting '", name, "'"));
      } else if (!entry.second.IsScalar()) {
        errors.push_back(absl::StrCat(place, ": ", name, " must be a single value"));
      } else {
        SetFlag(found->second, entry.second.Scalar(), place, errors);
      }
    }
  } catch (const std::exception& error) {  // also the stream's, if the path is a folder
    errors.push_back(absl::StrCat("config file ", path, ": ", error.what()));
  }
}

// True for variables that are not for services: of escctl and the scripts (tools/), and those that
// Kubernetes sets for each service of a release with this name (ESCAPEMENT_MASTER_SERVICE_HOST,
// ESCAPEMENT_MASTER_PORT_7410_TCP).
bool IsForOthers(absl::string_view variable) {
  for (const char* known :
       {"CONFIG", "SERVER", "KEY", "KEY_FILE", "URL", "TENANT", "STATE", "CONFIG_DIR", "BAZEL"}) {
    if (variable.substr(kPrefix.size()) == known) return true;
  }
  return absl::StrContains(variable, "_SERVICE_HOST") || absl::EndsWith(variable, "_PORT") ||
         absl::StrContains(variable, "_PORT_");
}

// Flags that ask for one thing to be done, and are no settings.
bool IsForOneCall(absl::string_view name) {
  for (const char* one :
       {"config", "print_config", "version", "migrate", "move_into_log", "move_out_of_log"}) {
    if (name == one) return true;
  }
  return false;
}

}  // namespace

AppliedFlags ApplyFlags(const FlagSources& sources) {
  AppliedFlags applied;
  const FlagMap flags = OurFlags();
  const auto arguments = ReadArguments(flags, sources.arguments, applied.help, applied.errors);

  std::string config;
  if (const auto path = sources.environment.find(absl::StrCat(kPrefix, "CONFIG"));
      path != sources.environment.end())
    config = path->second;
  for (const Argument& argument : arguments) {
    if (argument.flag->Name() == "config") config = argument.value;
  }
  if (!config.empty()) ApplyFile(flags, config, applied.errors);

  for (const auto& [variable, value] : sources.environment) {
    absl::string_view rest = variable;
    if (!absl::ConsumePrefix(&rest, kPrefix)) continue;
    const std::string name = absl::AsciiStrToLower(rest);
    const std::string place = absl::StrCat("environment ", variable);
    const auto found = flags.find(name);
    if (found != flags.end() && variable == EnvironmentName(name)) {
      SetFlag(found->second, value, place, applied.errors);
    } else if (!IsForOthers(variable) && !IsSetting(name)) {
      applied.errors.push_back(absl::StrCat(place, ": unknown setting"));
    }
  }
  for (const Argument& argument : arguments)
    SetFlag(argument.flag, argument.value, "command line", applied.errors);
  return applied;
}

namespace {

// Hides the password in a URL (scheme://user:password@host, or ?password=) and in options like
// libpq's (password=).
std::string WithoutPassword(const std::string& value) {
  static const std::regex user(R"(^([a-zA-Z][a-zA-Z0-9+.\-]*://[^:/?#@]*):[^/?#]*@)");
  static const std::regex option(R"(\b((ssl)?password\s*=\s*)('([^'\\]|\\.)*'|[^\s&]*))",
                                 std::regex::icase);
  return std::regex_replace(std::regex_replace(value, user, "$1:hidden@"), option, "$1hidden");
}

}  // namespace

std::string FlagsAsYaml() {
  std::string text;
  for (const auto& [name, flag] : OurFlags()) {
    if (IsForOneCall(name)) continue;
    YAML::Emitter value;
    value << YAML::DoubleQuoted << WithoutPassword(flag->CurrentValue());
    absl::StrAppend(&text, "# ", flag->Help(), "\n", name, ": ", value.c_str(), "\n");
  }
  return text;
}

std::string FlagsHelp() {
  std::string text;
  for (const auto& [name, flag] : OurFlags()) {
    absl::StrAppend(&text, "  --", name, " (", flag->Help(), "); default: ", flag->DefaultValue(),
                    "\n");
  }
  return text;
}

std::map<std::string, std::string> ProcessEnvironment() {
  std::map<std::string, std::string> variables;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    std::pair<std::string, std::string> variable = absl::StrSplit(*at, absl::MaxSplits('=', 1));
    variables.insert(std::move(variable));
  }
  return variables;
}

}  // namespace escapement
