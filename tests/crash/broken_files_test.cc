// The files of a closed store are damaged: a bit flips, a file loses its end, a sector is zero, a
// file is gone. The store then refuses to open, or serves its whole history, or answers unreadable
// parts with an error. It never serves a shorter or another history.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/crash/crash_life.h"

namespace escapement::crash {
namespace broken_files_test {

enum class Damage { kFlip, kTruncate, kZeroSector, kRemove };
constexpr const char* kDamages[] = {"bit flipped", "cut off", "sector zeroed", "removed"};

// Scans of this family, which has range tombstones, may skip a table that cannot be read (see
// HasRangeTombstones). This limit of RocksDB 7.8 is counted separately.
constexpr const char* kTableOfDone = ".sst of done";

std::string KindOf(const std::string& name, const std::string& bytes) {
  if (absl::StrContains(name, ".sst") && absl::StrContains(bytes, "done")) return kTableOfDone;
  for (const char* kind :
       {"MANIFEST", "CURRENT", "OPTIONS", "IDENTITY", "witness", ".sst", ".log"}) {
    if (absl::StrContains(name, kind)) return kind;
  }
  return "other";
}

// Half of the damage is near the end, where lost bytes look like a crash.
size_t DrawPlace(size_t size, std::mt19937_64& random) {
  if (size > 200 && random() % 2 == 0) return size - 1 - random() % 200;
  return random() % size;
}

// Damages the bytes. Returns at which byte.
size_t Hurt(Damage damage, std::mt19937_64& random, std::string* bytes) {
  const size_t at = DrawPlace(bytes->size(), random);
  switch (damage) {
    case Damage::kFlip:
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << random() % 8));
      break;
    case Damage::kTruncate:
      bytes->resize(at);
      break;
    case Damage::kZeroSector:
      for (size_t i = at / 512 * 512; i < std::min(bytes->size(), at / 512 * 512 + 512); ++i)
        (*bytes)[i] = '\0';
      break;
    case Damage::kRemove:
      break;
  }
  return at;
}

class BrokenFiles : public testing::TestWithParam<Damage> {
 protected:
  static void SetUpTestSuite() {
    LifeOptions options;
    options.seed = 7;
    options.bursts = 80;
    const LifeResult life = RunLife({}, {}, options);
    ASSERT_EQ(life.problem, "");
    known_ = new Known(life.after);
    closed_ = new DiskContent(FinalContent(life.operations, life.base));
    ASSERT_EQ(known_->answers, known_->history.entries().size());
    ASSERT_EQ(JudgeContent(*closed_, *known_, true).problem, "");
  }

  // "" if the store served wrong data.
  std::string OutcomeOf(const ImageVerdict& verdict) {
    if (!verdict.ended.ok()) return absl::StrCat("ends ", StatusName(verdict.ended));
    if (!verdict.opened.ok()) return absl::StrCat("refuses ", StatusName(verdict.opened));
    if (absl::StartsWith(verdict.problem, kUnreadable)) return "reads fail";
    return verdict.problem.empty() ? "whole" : "";
  }
  static std::string StatusName(const absl::Status& status) {
    return absl::StatusCodeToString(status.code());
  }

  void Try(const std::string& name, Damage damage) {
    DiskContent content = *closed_;
    size_t at = 0;
    if (damage == Damage::kRemove) {
      content.files.erase(name);
    } else {
      if (content.files[name].empty()) return;
      at = Hurt(damage, random_, &content.files[name]);
      if (content.files[name] == closed_->files.at(name)) return;
    }
    const ImageVerdict verdict = JudgeContent(content, *known_, /*reopen=*/false);
    const std::string outcome = OutcomeOf(verdict);
    const std::string kind = KindOf(name, closed_->files.at(name));
    ++outcomes_[kind][outcome];
    if (kind == kTableOfDone) return;
    EXPECT_NE(outcome, "") << name << " of " << closed_->files.at(name).size() << " bytes, at "
                           << at << ", " << kDamages[static_cast<size_t>(damage)] << ": "
                           << verdict.problem;
  }

  void Print(Damage damage) {
    for (const auto& [kind, outcomes] : outcomes_) {
      std::string line = absl::StrCat(kDamages[static_cast<size_t>(damage)], " in ", kind, ":");
      for (const auto& [outcome, count] : outcomes)
        absl::StrAppend(&line, " ", outcome.empty() ? "LIES" : outcome, " ", count, ",");
      line.pop_back();
      std::printf("%s\n", line.c_str());
    }
  }

  static const Known* known_;
  static const DiskContent* closed_;
  std::mt19937_64 random_{2026};
  std::map<std::string, std::map<std::string, int>> outcomes_;
};

const Known* BrokenFiles::known_ = nullptr;
const DiskContent* BrokenFiles::closed_ = nullptr;

TEST_P(BrokenFiles, AreRefusedOrDoNotMatter) {
  std::map<std::string, std::vector<std::string>> kinds;
  for (const auto& [name, bytes] : closed_->files) kinds[KindOf(name, bytes)].push_back(name);
  for (const char* kind : {"MANIFEST", "CURRENT", "witness", ".sst", ".log"})
    ASSERT_FALSE(kinds[kind].empty()) << kind;
  const int tries =
      std::max(1, getenv("CRASH_TRIES") == nullptr ? 25 : atoi(getenv("CRASH_TRIES")));
  for (const auto& [kind, names] : kinds) {
    if (GetParam() == Damage::kRemove) {
      for (const std::string& name : names) Try(name, GetParam());
      continue;
    }
    for (int i = 0; i < tries; ++i) Try(names[random_() % names.size()], GetParam());
  }
  Print(GetParam());
}

std::string NameOfTest(const testing::TestParamInfo<Damage>& info) {
  static const char* const kNames[] = {"Flip", "Truncate", "Zero", "Remove"};
  return kNames[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Damages, BrokenFiles,
                         testing::Values(Damage::kFlip, Damage::kTruncate, Damage::kZeroSector,
                                         Damage::kRemove),
                         NameOfTest);

}  // namespace broken_files_test
}  // namespace escapement::crash
