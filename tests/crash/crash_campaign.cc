#include "tests/crash/crash_campaign.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/crash/crash_life.h"

namespace escapement::crash {
namespace {

constexpr size_t kFailuresMax = 20;

size_t BeyondBucket(kv::CommitSeq beyond) {
  if (beyond <= 1) return beyond;
  return beyond <= 5 ? 2 : beyond <= 12 ? 3 : 4;
}

class Campaign {
 public:
  explicit Campaign(const CampaignOptions& options) : options_(options) {}

  Tally Run() {
    DiskContent base;
    Known known;
    for (int life = 0; life < options_.lives; ++life) {
      LifeOptions life_options;
      life_options.seed = options_.seed * 1000 + static_cast<uint64_t>(life);
      life_options.bursts = options_.bursts;
      life_options.faults = options_.faults;
      const LifeResult result = RunLife(base, known, life_options);
      ++tally_.lives;
      tally_.operations += result.operations.size();
      tally_.commits += result.after.history.seq();
      if (!result.opened.ok() || !result.problem.empty() || !result.fatal.ok()) {
        Fail(absl::StrCat("life ", life, ": ", result.opened.ToString(), "; ", result.problem, "; ",
                          result.fatal.ToString()),
             base);
        break;
      }
      std::optional<CrashImage> next = JudgeImages(result, life);
      if (!next.has_value()) break;
      known = KnownAt(result, *next);
      base = std::move(next->content);
    }
    return std::move(tally_);
  }

 private:
  // Judges images of the life. Returns an image with which the next life begins.
  std::optional<CrashImage> JudgeImages(const LifeResult& life, int index) {
    std::optional<CrashImage> next;
    const std::vector<DiskOperation> recovery(
        life.operations.begin(), life.operations.begin() + static_cast<ptrdiff_t>(life.recovery));
    for (int i = 0; i < options_.images_of_each; ++i) {
      const bool of_recovery = index > 0 && i % 2 == 0;
      const uint64_t seed =
          (options_.seed * 100 + static_cast<uint64_t>(index)) * 100'000 + static_cast<uint64_t>(i);
      CrashImage image = DrawCrashImage(of_recovery ? recovery : life.operations, life.base,
                                        life.before.answers, seed);
      tally_.of_recoveries += of_recovery ? 1 : 0;
      Count(image);
      const ImageVerdict verdict =
          JudgeContent(image.content, KnownAt(life, image), /*reopen=*/i % 4 == 0);
      if (verdict.problem.empty()) {
        ++tally_.beyond[BeyondBucket(verdict.seq - verdict.answered)];
        next = std::move(image);
        continue;
      }
      if (image.garbage_in_manifest && absl::IsDataLoss(verdict.opened)) {
        ++tally_.refused_garbage;
        continue;
      }
      ++(verdict.opened.ok() ? tally_.wrong : tally_.refused);
      Fail(absl::StrFormat("seed %d, life %d, image %d: %s, %s, after %d of %d operations: %s",
                           options_.seed, index, i, NameOf(image.names), NameOf(image.tails),
                           image.at, life.operations.size(), verdict.problem),
           image.content);
    }
    return next;
  }

  void Count(const CrashImage& image) {
    ++tally_.images;
    tally_.with_open_data += image.unsynced_files > 0 ? 1 : 0;
    tally_.with_open_names += image.unsynced_names > 0 ? 1 : 0;
    ++tally_.by_rule[static_cast<size_t>(image.names)][static_cast<size_t>(image.tails)];
  }

  void Fail(std::string what, const DiskContent& content) {
    if (tally_.failures.size() >= kFailuresMax) return;
    if (!options_.keep_in.empty()) {
      const std::string folder =
          absl::StrCat(options_.keep_in, "/seed-", options_.seed, "-", tally_.failures.size());
      std::filesystem::remove_all(folder);
      std::filesystem::create_directories(folder + "/image");
      WriteContent(content, folder + "/image");
      std::ofstream(folder + "/why") << what << "\n";
      absl::StrAppend(&what, "\n  kept: crash_main --image=", folder);
    }
    tally_.failures.push_back(std::move(what));
  }

  const CampaignOptions& options_;
  Tally tally_;
};

}  // namespace

void Tally::Add(const Tally& other) {
  lives += other.lives;
  operations += other.operations;
  commits += other.commits;
  images += other.images;
  of_recoveries += other.of_recoveries;
  with_open_data += other.with_open_data;
  with_open_names += other.with_open_names;
  for (size_t i = 0; i < kNameRules; ++i) {
    for (size_t j = 0; j < kTailRules; ++j) by_rule[i][j] += other.by_rule[i][j];
  }
  for (size_t i = 0; i < beyond.size(); ++i) beyond[i] += other.beyond[i];
  refused += other.refused;
  refused_garbage += other.refused_garbage;
  wrong += other.wrong;
  for (const std::string& failure : other.failures) {
    if (failures.size() < kFailuresMax) failures.push_back(failure);
  }
}

std::string Tally::Report() const {
  std::string text = absl::StrFormat(
      "%d images of %d lives (%d operations, %d commits), %d of them of recoveries; %d with data "
      "open, %d with names open\n",
      images, lives, operations, commits, of_recoveries, with_open_data, with_open_names);
  for (size_t i = 0; i < kNameRules; ++i) {
    absl::StrAppend(&text, "  names by ", NameOf(static_cast<NameRule>(i)), ":");
    for (size_t j = 0; j < kTailRules; ++j)
      absl::StrAppend(&text, " ", NameOf(static_cast<TailRule>(j)), " ", by_rule[i][j]);
    absl::StrAppend(&text, "\n");
  }
  absl::StrAppend(
      &text, absl::StrFormat("  recovered beyond the last answer: 0 in %d, 1 in %d, 2-5 in %d, "
                             "6-12 in %d, more in %d\n",
                             beyond[0], beyond[1], beyond[2], beyond[3], beyond[4]));
  absl::StrAppend(&text,
                  absl::StrFormat("  refused %d, wrong %d; refused for garbage in a MANIFEST %d\n",
                                  refused, wrong, refused_garbage));
  for (const std::string& failure : failures) absl::StrAppend(&text, failure, "\n");
  return text;
}

Tally RunCampaign(const CampaignOptions& options) { return Campaign(options).Run(); }

}  // namespace escapement::crash
