// Brings one resource to the state that a file describes.
//
// The file is the whole definition: a field that it does not set gets its default. The server
// validates every change before it is made, and says what the resource would be; if that is what it
// is already, nothing is written.

#ifndef TOOLS_ESCCTL_APPLY_APPLIER_H_
#define TOOLS_ESCCTL_APPLY_APPLIER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "escapement/v1/calendar_service.pb.h"
#include "escapement/v1/notification_service.pb.h"
#include "escapement/v1/resources.pb.h"
#include "tools/escctl/base/session.h"

namespace escapement::escctl {

enum class ApplyEffect { kCreated, kConfigured, kUnchanged, kPruned };

// "created", "configured", "unchanged", "pruned".
absl::string_view EffectName(ApplyEffect effect);

struct Applied {
  grpc::Status status;
  ApplyEffect effect = ApplyEffect::kUnchanged;
  // In the form of a file; empty: there is or was none.
  std::string before;
  std::string after;
  std::vector<std::string> warnings;
};

class Applier {
 public:
  // dry_run: the server only validates.
  Applier(Session& session, bool dry_run) : session_(session), dry_run_(dry_run) {}

  // In a dry run the names of policies and calendars that would be created are remembered:
  // schedules and calendars that refer to them are valid.
  Applied Apply(const v1::Schedule& wanted);
  Applied Apply(const v1::ThrottlePolicy& wanted);
  Applied Apply(const v1::Calendar& wanted);
  Applied Apply(const v1::Subscription& wanted);

  // Deletes the schedule, unless it has changed since it was listed.
  Applied Prune(const v1::Schedule& listed);

 private:
  template <typename Api>
  Applied ApplyWith(const typename Api::Message& wanted);
  bool RefersToPlanned(const grpc::Status& status) const;

  Session& session_;
  const bool dry_run_;
  std::vector<std::string> planned_;  // names
};

// `escctl apply`.

void AddApplyCommand(CLI::App& app, Session& session);

// The difference between two texts, line by line, as `diff -u` shows it. Pure.

// "--- {before_name}", "+++ {after_name}" and hunks with three lines of context. Empty if the texts
// are the same. Texts with very many different lines are shown as one replacement.
std::string UnifiedDiff(absl::string_view before_name, absl::string_view before,
                        absl::string_view after_name, absl::string_view after);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_APPLY_APPLIER_H_
