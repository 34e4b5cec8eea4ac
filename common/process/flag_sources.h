// Sets the flags of a service from three places: the command line, the environment, and a config
// file.
//
// Each absl flag `--some_flag` can also be given as ESCAPEMENT_SOME_FLAG, or as `some_flag: value`
// in the YAML file that --config (or ESCAPEMENT_CONFIG) names. escapement.config.v1.Config lists
// everything that a file may hold. Settings of other services are ignored; unknown settings, and
// those that a file has twice, are errors. So are unknown variables ESCAPEMENT_…, except those of
// escctl and the scripts, and those that Kubernetes makes of services. The command line wins over
// the environment, and the environment over the file. Unlike absl::ParseCommandLine, this does not
// end the process: it returns all errors of all three places at once.
//
// Threads: call it before the process creates any thread.

#ifndef COMMON_PROCESS_FLAG_SOURCES_H_
#define COMMON_PROCESS_FLAG_SOURCES_H_

#include <map>
#include <string>
#include <vector>

namespace escapement {

struct FlagSources {
  std::vector<std::string> arguments;  // without the program's name
  std::map<std::string, std::string> environment;
};

struct AppliedFlags {
  bool help = false;  // --help was given
  // Sentences; each names the place and the flag.
  std::vector<std::string> errors;
};

// Sets the flags. Understands --name=value, --name value, and --name / --noname for booleans.
AppliedFlags ApplyFlags(const FlagSources& sources);

// Each flag with its value, sorted, as a YAML file that --config can read; help texts are comments.
// Passwords in URLs and in options of libpq are replaced by "hidden".
std::string FlagsAsYaml();

// The lines of --help, sorted: "  --name (help); default: value".
std::string FlagsHelp();

// The environment of this process.
std::map<std::string, std::string> ProcessEnvironment();

}  // namespace escapement

#endif  // COMMON_PROCESS_FLAG_SOURCES_H_
