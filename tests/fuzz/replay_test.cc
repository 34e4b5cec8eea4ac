// Runs a fuzz target's properties on its corpus and on inputs that are made from it. Each line of a
// corpus is one input, with the escapes of C strings.

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace escapement::fuzz {
namespace replay_test {

constexpr int kMutations = 20'000;

void RunOn(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

std::vector<std::string> Corpus() {
  std::vector<std::string> inputs;
  std::ifstream file(absl::StrCat(std::getenv("TEST_SRCDIR"), "/", std::getenv("TEST_WORKSPACE"),
                                  "/tests/fuzz/corpus/", std::getenv("CORPUS")));
  for (std::string line; std::getline(file, line);) {
    std::string input;
    EXPECT_TRUE(absl::CUnescape(line, &input)) << line;
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::string Mutated(std::string text, const std::vector<std::string>& corpus,
                    std::mt19937_64& random) {
  for (int changes = 1 + static_cast<int>(random() % 4); changes > 0; --changes) {
    const size_t at = random() % (text.size() + 1);
    const std::string& other = corpus[random() % corpus.size()];
    const size_t from = random() % (other.size() + 1);
    switch (random() % 4) {
      case 0:
        text.insert(at, 1, static_cast<char>(random()));
        break;
      case 1:
        text.erase(at, 1 + random() % 4);
        break;
      case 2:
        text.insert(at, other.substr(from, random() % 12));
        break;
      default:
        text = text.substr(0, at) + other.substr(from);
    }
  }
  return text;
}

TEST(FuzzReplay, PropertiesHoldForTheCorpus) {
  const std::vector<std::string> corpus = Corpus();
  ASSERT_GE(corpus.size(), 10u);
  for (const std::string& input : corpus) RunOn(input);
  RunOn("");
}

TEST(FuzzReplay, PropertiesHoldForMutatedCorpus) {
  const std::vector<std::string> corpus = Corpus();
  ASSERT_FALSE(corpus.empty());
  std::mt19937_64 random(1);
  for (int round = 0; round < kMutations; ++round)
    RunOn(Mutated(corpus[random() % corpus.size()], corpus, random));
}

}  // namespace replay_test
}  // namespace escapement::fuzz
