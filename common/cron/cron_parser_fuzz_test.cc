// Checks the fuzz target's properties on the corpus and on texts that are made from it.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cron/cron_expression.h"
#include "gtest/gtest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace escapement::cron {
namespace cron_parser_fuzz_test {

void RunOn(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

std::vector<std::string> Corpus() {
  std::vector<std::string> texts;
  std::ifstream file(absl::StrCat(std::getenv("TEST_SRCDIR"), "/", std::getenv("TEST_WORKSPACE"),
                                  "/common/cron/fuzz_corpus/expressions.txt"));
  for (std::string line; std::getline(file, line);) texts.push_back(line);
  return texts;
}

// Changes a text so that it is still an expression, or almost one: pieces of texts, digits, signs.
std::string Mutated(std::string text, const std::vector<std::string>& corpus,
                    std::mt19937_64& random) {
  static constexpr absl::string_view kSigns = "*/,-?#+LWlw0123456789 \t@JANmonSUN\n\xc3";
  for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
    const size_t at = random() % (text.size() + 1);
    const std::string& other = corpus[random() % corpus.size()];
    const size_t from = other.empty() ? 0 : random() % other.size();
    switch (random() % 5) {
      case 0:
        text.insert(at, 1, kSigns[random() % kSigns.size()]);
        break;
      case 1:
        text.erase(at, 1 + random() % 3);
        break;
      case 2:
        if (at < text.size()) text[at] = kSigns[random() % kSigns.size()];
        break;
      case 3:
        text.insert(at, other.substr(from, random() % 8));
        break;
      default:
        text = text.substr(0, at) + other.substr(from);
    }
  }
  return text;
}

TEST(CronParserFuzzTest, PropertiesHoldForTheCorpus) {
  const std::vector<std::string> corpus = Corpus();
  ASSERT_GT(corpus.size(), 10u);
  for (const std::string& text : corpus) RunOn(text);
  for (const std::string& text : {std::string(), std::string(1024, ' '), std::string(1025, '*'),
                                  std::string("0 0 1 1 *\0", 10)})
    RunOn(text);
}

TEST(CronParserFuzzTest, PropertiesHoldForMutatedCorpus) {
  std::vector<std::string> corpus = Corpus();
  std::mt19937_64 random(1);
  size_t accepted = 0;
  for (int round = 0; round < 60'000; ++round) {
    const std::string text = Mutated(corpus[random() % corpus.size()], corpus, random);
    RunOn(text);
    if (!ParseCron(text).ok()) continue;
    ++accepted;
    if (corpus.size() < 2000 && text.size() < 200) corpus.push_back(text);
  }
  EXPECT_GT(accepted, 5'000u);
}

}  // namespace cron_parser_fuzz_test
}  // namespace escapement::cron
