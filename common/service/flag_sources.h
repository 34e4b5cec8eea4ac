// Flags of a service from three places: the command line, the environment, a config file.
//
// Every absl flag `--some_flag` can also be given as ESCAPEMENT_SOME_FLAG or as `some_flag: value`
// in the YAML file that --config (or ESCAPEMENT_CONFIG) names. What a file may hold is
// escapement.config.v1.Config; settings of other services are passed over, unknown ones are errors.
// The command line wins over the environment, the environment over the file. Unlike
// absl::ParseCommandLine nothing ends the process: every error of all three places is returned at
// once.
//
// Threads: call before the first thread is made.

#ifndef COMMON_SERVICE_FLAG_SOURCES_H_
#define COMMON_SERVICE_FLAG_SOURCES_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace escapement {

struct FlagSources {
  std::vector<std::string> arguments;  // without the program's name
  // The value of an environment variable, or nothing.
  std::function<std::optional<std::string>(const std::string& name)> environment;
};

struct AppliedFlags {
  bool help = false;  // --help was given
  // Sentences, each naming the place and the flag.
  std::vector<std::string> errors;
};

// Sets the flags. Understands --name=value, --name value, and --name / --noname for booleans.
AppliedFlags ApplyFlags(const FlagSources& sources);

// Every flag with its value as a YAML file that --config would read, sorted, the help text as
// comments.
std::string FlagsAsYaml();

// For --help: "  --name (help); default: value" lines, sorted.
std::string FlagsHelp();

// getenv().
std::optional<std::string> ProcessEnvironment(const std::string& name);

}  // namespace escapement

#endif  // COMMON_SERVICE_FLAG_SOURCES_H_
