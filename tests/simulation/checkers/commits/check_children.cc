#include <map>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/commits/commit_checks.h"

namespace escapement::simulation {
namespace {

class ChildrenChecker {
 public:
  std::vector<Violation> Run(const History& history) {
    for (const Commit& commit : history.commits) {
      std::set<std::string> touched;  // expressions that the commit touches
      for (const QueueWrite& write : commit.queue) {
        if (const auto* child = std::get_if<ChildWrite>(&write)) {
          if (child->expression.empty()) continue;
          touched.insert(child->expression);
          auto& children = children_[child->expression];
          if (child->deleted) {
            children.erase(child->key);
          } else {
            children[child->key] = child->uid;
          }
        } else if (const auto* in_use = std::get_if<InUseWrite>(&write)) {
          touched.insert(in_use->expression);
          if (in_use->deleted) {
            in_use_.erase(in_use->expression);
          } else {
            in_use_.insert(in_use->expression);
          }
        }
      }
      for (const std::string& expression : touched) Check(commit, expression);
    }
    return std::move(violations_);
  }

 private:
  void Check(const Commit& commit, const std::string& expression) {
    const auto& children = children_[expression];
    if (children.empty() || in_use_.count(expression) > 0) return;
    violations_.push_back(
        {"children",
         absl::StrCat("commit ", commit.seq, " at ",
                      absl::FormatTime(commit.store_time, absl::UTCTimeZone()), ": expression ",
                      absl::BytesToHexString(expression), " is not in use, and ",
                      children.begin()->second, " has a child under it")});
  }

  std::map<std::string, std::map<std::string, std::string>> children_;  // by expression: key → uid
  std::set<std::string> in_use_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckChildren(const History& history) {
  return ChildrenChecker().Run(history);
}

}  // namespace escapement::simulation
